"""A job's part in a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from marith.engine.jobs.job import Job
from marith.formula.tree.terms import Classifier, Term
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.scorer import Scorer
from marith.scoring.term_lanes import TermLanes


@dataclass(slots=True)
class Turn:
    """A job's part in a step: the positions that it wants, and the answers that it has so far.

    A turn takes several steps while a term still reads a long prompt. A turn with `only_drafts`
    evaluates only terms that draft, and runs before the turns that verify. `counted` is the number
    of tokens after the prompt for which memory is counted.
    """

    job: Job
    counted: int = 0
    text: Sequence[int] = ()
    counts: Mapping[Term, int] = field(default_factory=dict)
    answers: dict[Term, Answer] = field(default_factory=dict)
    spans: list[tuple[Scorer, Span]] = field(default_factory=list)
    only_drafts: bool = False

    def ask(self) -> None:
        """Ask the job which positions it wants, unless some of them have been evaluated already."""
        if self.answers:
            return
        text, counts = self.job.wanted()
        # If the text has only grown in place, it is still the same list, and the spans that refer
        # to it are still valid.
        if text is not self.text or counts is not self.counts:
            drafts = self.job.prepared.plan.drafts
            self.text, self.counts = text, counts
            self.spans = _spans(self.job.prepared.lanes, text, counts)
            self.only_drafts = bool(drafts and counts) and all(term in drafts for term in counts)

    @property
    def waits_for_classifiers(self) -> bool:
        """True if only classifiers are missing, which need the answers of the other terms."""
        missing = [term for term in self.counts if term not in self.answers]
        return bool(missing) and all(isinstance(term, Classifier) for term in missing)


def _spans(
    lanes: TermLanes, text: Sequence[int], counts: Mapping[Term, int]
) -> list[tuple[Scorer, Span]]:
    """Return the spans of all wanted terms but classifiers, which are evaluated later."""
    return [
        (lanes.scorers[term], lanes.span(term, text, count))
        for term, count in counts.items()
        if not isinstance(term, Classifier)
    ]
