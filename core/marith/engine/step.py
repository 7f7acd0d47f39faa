"""One turn of the engine: what every job wants is evaluated, composed, verified and accepted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.decoding.composition.evaluate import evaluate, likeliest
from marith.engine.generation import Generation
from marith.engine.job import Cost, Job, lane_of
from marith.engine.queries import share
from marith.errors import fault
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, Observation, Term
from marith.scoring.scorer import Scored, Scorer, Span
from marith.speculation.adaptive import Controller, judged
from marith.speculation.verify import Check, verify_all
from marith.speculation.window import Block


@dataclass(slots=True)
class Turn:
    """A job, what it wants now, and the terms that have been evaluated.

    It may take several steps: one term still reads a long prompt while another has been evaluated.
    """

    job: Job
    text: Sequence[int] = ()
    counts: Mapping[Term, int] = field(default_factory=dict)
    answers: dict[Term, Scored] = field(default_factory=dict)

    def ask(self) -> None:
        """See what the job wants; it wants the same until it has received it."""
        if not self.answers:
            self.text, self.counts = self.job.wanted()

    @property
    def drafts(self) -> bool:
        """Whether it wants nothing but drafts, and so goes ahead of those that verify."""
        drafts = self.job.reader.plan.drafts
        return bool(drafts and self.counts) and all(term in drafts for term in self.counts)

    def missing(self, classifiers: bool) -> list[Term]:
        """The terms that have yet to be evaluated: classifiers, or all others."""
        return [
            term
            for term in self.counts
            if term not in self.answers and isinstance(term, Classifier) is classifiers
        ]

    @property
    def logprobs(self) -> dict[Term, Tensor]:
        """What has been evaluated."""
        return {term: scored.logprobs for term, scored in self.answers.items()}


def step(turns: Sequence[Turn], controller: Controller) -> None:
    """Draft first, so that all verifications share one pass; then verify.

    Whatever raises before a job accepts its verdict, the step can be repeated for each job alone.
    """
    plan([turn.job for turn in turns if not turn.answers], turns, controller)
    ahead = drafting(turns)
    while ahead:
        ahead = drafting(asking(run(ahead, controller)))
    run(turns, controller)


def plan(jobs: Sequence[Job], turns: Sequence[Turn], controller: Controller) -> None:
    """How much each text drafts, and how much each scoring asks for, of the jobs that begin."""
    texts = [job for job in jobs if isinstance(job, Generation) and job.may_draft]
    if texts:
        scorers = [job.reader.scorers[term] for job in jobs for term in job.reader.plan.terms]
        rows = sum(len(turn.job.reader.plan.terms) for turn in turns)
        controller.plan(texts, scorers, rows, len(jobs))
    share(jobs)
    asking(turns)


def asking(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The same turns, which know what they want next."""
    for turn in turns:
        turn.ask()
    return turns


def drafting(turns: Sequence[Turn]) -> list[Turn]:
    """The turns that want nothing but drafts."""
    return [turn for turn in turns if turn.drafts]


def run(turns: Sequence[Turn], controller: Controller) -> list[Turn]:
    """One round; the turns that have received all they wanted."""
    scorers = list({turn.job.reader.scorers[t]: None for turn in turns for t in turn.counts})
    with controller.timed(scorers, sum(judged(turn.counts) for turn in turns)):
        ready = score(turns)
        checks = compose(ready)
        verdicts = verify_all([check for _, check in checks])
    for (job, _), verdict in zip(checks, verdicts, strict=True):
        try:
            job.accept(verdict)
        except BaseException as error:  # a job's own fault goes to its own caller
            job.fail(fault(error))
    for turn in ready:
        if isinstance(turn.job, Generation):
            controller.learn(turn.job.window)
    return ready


def score(turns: Sequence[Turn]) -> list[Turn]:
    """Evaluate what is wanted; the turns whose terms have all been evaluated."""
    _score((turn, span) for turn in turns for span in _spans(turn))
    guided = [turn for turn in turns if not turn.missing(classifiers=False)]
    _score((turn, span) for turn in guided for span in _classifier_spans(turn))
    return [turn for turn in guided if not turn.missing(classifiers=True)]


def _spans(turn: Turn) -> Iterator[Span]:
    job = turn.job
    for term in turn.missing(classifiers=False):
        reading = job.reader.readings[term]
        yield Span(term, lane_of(job, term), reading, turn.text, turn.counts[term])


def _classifier_spans(turn: Turn) -> Iterator[Span]:
    job, plan = turn.job, turn.job.reader.plan
    for classifier in turn.missing(classifiers=True):
        assert isinstance(classifier, Classifier)
        guide, count = plan.guide_of(classifier), turn.counts[classifier]
        logprobs = job.logprobs(plan.leaves(guide), count, turn.logprobs)
        tokens = likeliest(guide, logprobs, classifier.candidates, classifier.coverage)
        reading = job.reader.readings[classifier]
        yield Span(classifier, lane_of(job, classifier), reading, turn.text, count, tokens)


def _score(spans: Iterable[tuple[Turn, Span]]) -> None:
    """One call a scorer, for the spans of all jobs."""
    asked: dict[Scorer, list[tuple[Turn, Span]]] = defaultdict(list)
    for turn, span in spans:
        asked[turn.job.reader.scorers[span.term]].append((turn, span))
    for scorer, pairs in asked.items():
        answers = scorer.score([span for _, span in pairs])
        for (turn, span), answer in zip(pairs, answers, strict=True):
            if answer is not None:
                turn.answers[span.term] = answer


def compose(turns: Sequence[Turn]) -> list[tuple[Job, Check]]:
    """What each job has to verify; positions of one formula are evaluated together."""
    blocks = [(turn.job, block) for turn in turns for block in _received(turn)]
    together: dict[Formula, list[int]] = defaultdict(list)
    for at, (_, block) in enumerate(blocks):
        together[block.formula].append(at)
    composed: dict[int, Tensor] = {}
    for formula, members in together.items():
        own = [blocks[at][1].logprobs for at in members]
        logprobs = {term: torch.cat([one[term] for one in own]) for term in own[0]}
        counts = [len(next(iter(one.values()))) for one in own]
        composed.update(zip(members, evaluate(formula, logprobs).split(counts), strict=True))
    rows: dict[Job, list[Tensor]] = defaultdict(list)
    for at, (job, _) in enumerate(blocks):
        rows[job].append(composed[at])
    checks = [(job, job.check(torch.cat(own))) for job, own in rows.items()]
    return [(job, check) for job, check in checks if check is not None]


def _received(turn: Turn) -> Sequence[Block]:
    """What a job has to compose of what it has received."""
    blocks = turn.job.receive(turn.logprobs, _cost(turn))
    turn.answers, turn.counts = {}, {}
    return blocks


def _cost(turn: Turn) -> Cost:
    answers = turn.answers
    scorers = turn.job.reader.scorers
    passes = {(id(scorers[term]), n) for term, scored in answers.items() for n in scored.passes}
    unread = (Classifier, Observation)
    cached = {t: s.cached for t, s in answers.items() if not isinstance(t, unread) and s.passes}
    judged = sum(scored.judged for scored in answers.values())
    return Cost(len(passes), len(answers), judged, cached)
