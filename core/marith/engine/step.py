"""One turn of the engine: every job asks, each checkpoint runs once, every job hears."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.decoding.evaluation import evaluate, likeliest
from marith.decoding.speculation import Trial, settle
from marith.engine.job import Cost, Job, lane_of
from marith.engine.pilot import Pilot, judged
from marith.engine.positions import Block
from marith.engine.questions import share
from marith.errors import fault
from marith.formula.nodes import Formula
from marith.formula.terms import Classifier, Observation, Term
from marith.scoring.scorer import Scored, Scorer, Span


@dataclass(slots=True)
class Turn:
    """A job, what it asks now, and the terms that have answered.

    Its terms may need several steps: one reads a long prompt while another has spoken.
    """

    job: Job
    text: Sequence[int] = ()
    counts: Mapping[Term, int] = field(default_factory=dict)
    heard: dict[Term, Scored] = field(default_factory=dict)

    def ask(self) -> None:
        """See what the job asks; it asks the same until it has been answered."""
        if not self.heard:
            self.text, self.counts = self.job.asks()

    @property
    def drafting(self) -> bool:
        """Whether none but drafts are asked, and so it should go ahead of those who wait."""
        drafts = self.job.reader.stages.drafts
        return bool(drafts and self.counts) and all(term in drafts for term in self.counts)

    def missing(self, judges: bool) -> list[Term]:
        """The terms that have yet to answer: classifiers, or all others."""
        return [
            term
            for term in self.counts
            if term not in self.heard and isinstance(term, Classifier) is judges
        ]


def take_step(turns: Sequence[Turn], pilot: Pilot) -> None:
    """Draft ahead, then score, compose, settle and tell.

    Nothing is told to any job before all have been composed.
    """
    open_ = [turn.job for turn in turns if not turn.heard]  # others wait for answers
    pilot.steer(open_, sum(len(turn.job.reader.stages.terms) for turn in turns))
    share(open_)
    for turn in turns:
        turn.ask()
    ahead = [turn for turn in turns if turn.drafting]
    while ahead:  # drafts are cheap: those who verify then do so together
        ahead = _run(ahead, pilot)  # not who reads a long prompt still: that is for further steps
        for turn in ahead:
            turn.ask()
        ahead = [turn for turn in ahead if turn.drafting]
    _run(turns, pilot)


def _run(turns: Sequence[Turn], pilot: Pilot) -> list[Turn]:
    """One round: what is asked is scored, composed, settled and timed; who has been answered."""
    asked = list({turn.job.reader.scorers[t]: None for turn in turns for t in turn.counts})
    with pilot.timing(asked, sum(judged(turn.counts) for turn in turns)):
        whole = _speak(turns)
        trials = _compose(whole)
        verdicts = settle(list(trials.values())) if trials else []
    for i, verdict in zip(trials, verdicts, strict=True):
        job = whole[i].job
        try:
            job.settle(verdict)
        except BaseException as error:  # a job's own fault is told to its own caller
            job.fail(fault(error))
    pilot.learn([turn.job for turn in whole])
    return whole


def _speak(turns: Sequence[Turn]) -> list[Turn]:
    """Score what is asked; the turns whose terms have all answered, and been heard."""
    _score((turn, span) for turn in turns for span in _speaker_spans(turn))
    spoken = [turn for turn in turns if not turn.missing(judges=False)]
    _score((turn, span) for turn in spoken for span in _judge_spans(turn))
    whole = [turn for turn in spoken if not turn.missing(judges=True)]
    for turn in whole:
        if turn.heard:
            turn.job.hear(_logprobs(turn), _cost(turn))
            turn.heard, turn.counts = {}, {}
    return whole


def _speaker_spans(turn: Turn) -> Iterator[Span]:
    job = turn.job
    for term in turn.missing(judges=False):
        reading = job.reader.readings[term]
        yield Span(term, lane_of(job, term), reading, turn.text, turn.counts[term])


def _judge_spans(turn: Turn) -> Iterator[Span]:
    job, stages = turn.job, turn.job.reader.stages
    for judge in turn.missing(judges=True):
        assert isinstance(judge, Classifier)
        guide, count = stages.guide_of(judge), turn.counts[judge]
        spoken = job.spoken(stages.leaves(guide), count, _logprobs(turn))
        tokens = likeliest(guide, spoken, judge.candidates, judge.coverage)
        reading = job.reader.readings[judge]
        yield Span(judge, lane_of(job, judge), reading, turn.text, count, tokens)


def _score(spans: Iterable[tuple[Turn, Span]]) -> None:
    """One call a scorer, for the spans of all jobs."""
    asked: dict[Scorer, list[tuple[Turn, Span]]] = defaultdict(list)
    for turn, span in spans:
        asked[turn.job.reader.scorers[span.term]].append((turn, span))
    for scorer, pairs in asked.items():
        answers = scorer.score([span for _, span in pairs])
        for (turn, span), answer in zip(pairs, answers, strict=True):
            if answer is not None:
                turn.heard[span.term] = answer


def _compose(turns: Sequence[Turn]) -> dict[int, Trial]:
    """The trials of those who have any; blocks of one formula are evaluated together."""
    blocks = [(i, block) for i, turn in enumerate(turns) for block in turn.job.blocks()]
    together: dict[Formula, list[int]] = defaultdict(list)
    for at, (_, block) in enumerate(blocks):
        together[block.part].append(at)
    composed: dict[int, Tensor] = {}
    for formula, members in together.items():
        own = [blocks[at][1].spoken for at in members]
        spoken = {term: torch.cat([one[term] for one in own]) for term in own[0]}
        counts = [_positions(blocks[at][1]) for at in members]
        composed.update(zip(members, evaluate(formula, spoken).split(counts), strict=True))
    rows: dict[int, list[Tensor]] = defaultdict(list)
    for at, (i, _) in enumerate(blocks):
        rows[i].append(composed[at])
    trials = {i: turns[i].job.compose(torch.cat(own)) for i, own in rows.items()}
    return {i: trial for i, trial in trials.items() if trial is not None}


def _positions(block: Block) -> int:
    return len(next(iter(block.spoken.values())))


def _logprobs(turn: Turn) -> dict[Term, Tensor]:
    return {term: scored.logprobs for term, scored in turn.heard.items()}


def _cost(turn: Turn) -> Cost:
    answers = turn.heard
    scorers = turn.job.reader.scorers
    passes = {(id(scorers[term]), n) for term, scored in answers.items() for n in scored.passes}
    unread = (Classifier, Observation)
    cached = {t: s.cached for t, s in answers.items() if not isinstance(t, unread) and s.passes}
    judged = sum(scored.judged for scored in answers.values())
    return Cost(len(passes), len(answers), judged, cached)
