"""One turn of the engine: what every job wants is evaluated, composed, verified and accepted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice

from marith.decoding.composition.evaluate import evaluate, likeliest
from marith.engine.jobs.drafts import Drafts
from marith.engine.jobs.generation import Generation
from marith.engine.jobs.job import Job
from marith.engine.jobs.queries import TextQuery, share
from marith.engine.prepare import Prepared
from marith.errors import fault
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, Term
from marith.scoring.scorer import Scored, Scorer, Span
from marith.speculation.controller.adaptive import Controller, judged
from marith.speculation.verify import Check, verify_all
from marith.speculation.window import Block
from marith.tensor_rows import Row, gather, rows_of


@dataclass(slots=True)
class Turn:
    """A job, what it wants now, and the terms that have been evaluated.

    It may take several steps: one term still reads a long prompt while another has been evaluated.
    """

    job: Job
    text: Sequence[int] = ()
    counts: Mapping[Term, int] = field(default_factory=dict)
    answers: dict[Term, Scored] = field(default_factory=dict)
    spans: list[tuple[Scorer, Span]] = field(default_factory=list)

    def ask(self) -> None:
        """See what the job wants; it wants the same until it has received it."""
        if self.answers:
            return
        text, counts = self.job.wanted()
        if text is not self.text or counts is not self.counts:  # a text that grows in place stays
            self.text, self.counts = text, counts
            self.spans = _spans(self.job.prepared, text, counts)

    @property
    def drafts(self) -> bool:
        """Whether it wants nothing but drafts, and so goes ahead of those that verify."""
        drafts = self.job.prepared.plan.drafts
        return bool(drafts and self.counts) and all(term in drafts for term in self.counts)

    @property
    def complete(self) -> bool:
        """Whether every term has been evaluated."""
        return len(self.answers) == len(self.counts)

    @property
    def waits_for_classifiers(self) -> bool:
        """Whether every term has been evaluated but classifiers, which need the others."""
        missing = [term for term in self.counts if term not in self.answers]
        return bool(missing) and all(isinstance(term, Classifier) for term in missing)


def step(turns: Sequence[Turn], controller: Controller) -> None:
    """Draft first, so that all verifications share one pass; then verify.

    Whatever raises before a job accepts its verdict, the step can be repeated for each job alone.
    """
    turns = within_memory(turns)
    plan(turns, controller)
    ahead = drafting(turns)
    while ahead:
        ahead = drafting(asking(unfinished(run(ahead, controller))))
        turns = unfinished(turns)
    run(turns, controller)


def within_memory(turns: Sequence[Turn]) -> Sequence[Turn]:
    """All turns but those of texts for whose log-probabilities this step has no memory left."""
    scorings = [(turn.job, bool(turn.answers)) for turn in turns if isinstance(turn.job, TextQuery)]
    if not scorings:
        return turns
    begun = [job for job, has_answers in scorings if has_answers]
    others = [job for job, has_answers in scorings if not has_answers]
    waiting = {id(job) for job in others[len(share(others, begun)) :]}
    return [turn for turn in turns if id(turn.job) not in waiting] if waiting else turns


def plan(turns: Sequence[Turn], controller: Controller) -> None:
    """How much each text drafts, of the jobs that begin."""
    jobs = [turn.job for turn in turns if not turn.answers]
    texts = [drafts for drafts in map(drafts_of, jobs) if drafts and drafts.begin]
    if texts:
        rows = sum(len(turn.job.prepared.plan.terms) for turn in turns)
        controller.plan(texts, lambda: scorers_of(jobs), rows, len(jobs))
    asking(turns)


def scorers_of(jobs: Sequence[Job]) -> set[Scorer]:
    """Those of all terms of these jobs."""
    return {job.prepared.scorers[term] for job in jobs for term in job.prepared.plan.terms}


def asking(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The same turns, which know what they want next."""
    for turn in turns:
        turn.ask()
    return turns


def unfinished(turns: Sequence[Turn]) -> list[Turn]:
    """The turns of jobs that go on: a query may end while others draft."""
    return [turn for turn in turns if not turn.job.done]


def drafting(turns: Sequence[Turn]) -> list[Turn]:
    """The turns that want nothing but drafts."""
    return [turn for turn in turns if turn.drafts]


def run(turns: Sequence[Turn], controller: Controller) -> list[Turn]:
    """One round; the turns that have received all they wanted."""
    with timed(turns, controller):
        ready = score(turns)
        checks = compose(ready)
        verdicts = verify_all([check for _, check in checks])
    for (job, _), verdict in zip(checks, verdicts, strict=True):
        try:
            job.accept(verdict)
        except BaseException as error:  # a job's own fault goes to its own caller
            job.fail(fault(error))
    for turn in ready:
        if drafts := drafts_of(turn.job):
            controller.learn(drafts.window)
    return ready


def drafts_of(job: Job) -> Drafts | None:
    """Who drafts for a job; None where nobody does."""
    return job.drafts if isinstance(job, Generation) else None


def timed(turns: Sequence[Turn], controller: Controller) -> AbstractContextManager[None]:
    """Time a round, where a text's drafts depend on what a round costs."""
    if not any(turn.job.prepared.plan.adapts for turn in turns):
        return nullcontext()
    scorers = list({turn.job.prepared.scorers[t]: None for turn in turns for t in turn.counts})
    return controller.timed(scorers, sum(judged(turn.counts) for turn in turns))


def score(turns: Sequence[Turn]) -> list[Turn]:
    """Evaluate what is wanted; the turns whose terms have all been evaluated."""
    _score(turns, _missing)
    ready = [turn for turn in turns if turn.complete]
    if len(ready) == len(turns):
        return ready
    _score([turn for turn in turns if turn.waits_for_classifiers], _classifier_spans)
    return [turn for turn in turns if turn.complete]


def _score(
    turns: Sequence[Turn], spans_of: Callable[[Turn], Iterable[tuple[Scorer, Span]]]
) -> None:
    """One call a scorer, for the spans of all jobs."""
    asked: dict[Scorer, list[tuple[Turn, Span]]] = defaultdict(list)
    for turn in turns:
        for scorer, span in spans_of(turn):
            asked[scorer].append((turn, span))
    for scorer, pairs in asked.items():
        answers = scorer.score([span for _, span in pairs])
        for (turn, span), answer in zip(pairs, answers, strict=True):
            if answer is not None:
                turn.answers[span.term] = answer


def _missing(turn: Turn) -> list[tuple[Scorer, Span]]:
    """What has not been evaluated, but classifiers."""
    if not turn.answers:
        return turn.spans
    return [(scorer, span) for scorer, span in turn.spans if span.term not in turn.answers]


def _spans(
    prepared: Prepared, text: Sequence[int], counts: Mapping[Term, int]
) -> list[tuple[Scorer, Span]]:
    """What a job wants of each term, but of classifiers, which judge what others return."""
    lanes, readings, salt = prepared.lanes, prepared.readings, prepared.salt
    return [
        (prepared.scorers[term], Span(term, lanes[term], readings[term], text, count, None, salt))
        for term, count in counts.items()
        if not isinstance(term, Classifier)
    ]


def _classifier_spans(turn: Turn) -> Iterator[tuple[Scorer, Span]]:
    """What is missing: each classifier judges its guide's likeliest tokens."""
    job, prepared = turn.job, turn.job.prepared
    for classifier, count in turn.counts.items():
        if classifier not in turn.answers:
            assert isinstance(classifier, Classifier)
            guide = prepared.plan.guide_of(classifier)
            rows = job.rows(prepared.plan.leaves(guide), count, turn.answers)
            logprobs = {term: gather(term_rows) for term, term_rows in rows.items()}
            tokens = likeliest(guide, logprobs, classifier.candidates, classifier.coverage)
            lane, reading = prepared.lanes[classifier], prepared.readings[classifier]
            span = Span(classifier, lane, reading, turn.text, count, tokens, prepared.salt)
            yield prepared.scorers[classifier], span


def compose(turns: Sequence[Turn]) -> list[tuple[Job, Check]]:
    """What each job has to verify; positions of one formula are evaluated together."""
    received = [(turn.job, _received(turn)) for turn in turns]
    together: dict[Formula, list[Block]] = defaultdict(list)
    for _, blocks in received:
        for block in blocks:
            together[block.formula].append(block)
    composed: dict[int, Sequence[Row]] = {}
    for formula, blocks in together.items():
        rows = {
            term: gather([row for block in blocks for row in block.rows[term]])
            for term in blocks[0].terms
        }
        results = iter(rows_of(evaluate(formula, rows)))
        composed.update((id(block), list(islice(results, block.count))) for block in blocks)
    checks = []
    for job, blocks in received:
        if blocks:
            check = job.check([row for block in blocks for row in composed[id(block)]])
            if check is not None:
                checks.append((job, check))
    return checks


def _received(turn: Turn) -> Sequence[Block]:
    """What a job has to compose of what it has received."""
    blocks = turn.job.receive(turn.answers)
    turn.answers = {}
    return blocks
