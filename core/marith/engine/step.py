"""One turn of the engine: every job asks, each checkpoint runs once, every job hears."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.decoding.evaluation import evaluate, likeliest
from marith.engine.job import Cost, Job, lane_of
from marith.formula.nodes import Formula
from marith.formula.terms import Classifier, Term
from marith.scoring.scorer import Scored, Scorer, Span


@dataclass(slots=True)
class Turn:
    """A job, and the terms that have answered what it asks now.

    Its terms may need several steps: one reads a long prompt while another has spoken.
    """

    job: Job
    heard: dict[Term, Scored] = field(default_factory=dict)

    def owes(self, terms: Iterable[Term]) -> bool:
        """Whether one of the terms has yet to answer."""
        return any(term not in self.heard for term in terms)


def take_step(turns: Sequence[Turn]) -> None:
    """Score, compose and tell. Nothing is told to any job before all have been composed."""
    _score((turn, span) for turn in turns for span in _speaker_spans(turn))
    spoken = [turn for turn in turns if not turn.owes(turn.job.reader.plan.speakers)]
    _score((turn, span) for turn in spoken for span in _judge_spans(turn))
    whole = [turn for turn in spoken if not turn.owes(turn.job.reader.plan.judges)]
    for turn, logprobs in zip(whole, _compose(whole), strict=True):
        cost = _cost(turn)
        turn.heard = {}
        try:
            turn.job.hear(logprobs, cost)
        except Exception as error:  # a job's own fault is told to its own caller
            turn.job.fail(error)


def _speaker_spans(turn: Turn) -> Iterable[Span]:
    job = turn.job
    text, count = job.asks()
    for term in job.reader.plan.speakers:
        if term not in turn.heard:
            yield Span(term, lane_of(job, term), job.reader.readings[term], text, count)


def _judge_spans(turn: Turn) -> Iterable[Span]:
    job = turn.job
    plan, (text, count) = job.reader.plan, job.asks()
    spoken = {term: answer.logprobs for term, answer in turn.heard.items()}
    for judge in plan.judges:
        if judge not in turn.heard:
            tokens = likeliest(plan.guide_of(judge), spoken, judge.candidates, judge.coverage)
            reading = job.reader.readings[judge]
            yield Span(judge, lane_of(job, judge), reading, text, count, tokens)


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


def _compose(turns: Sequence[Turn]) -> list[Tensor]:
    """The composed log-probabilities of each job; jobs of one formula are evaluated together."""
    together: dict[Formula, list[int]] = defaultdict(list)
    for i, turn in enumerate(turns):
        together[turn.job.reader.plan.formula].append(i)
    composed: dict[int, Tensor] = {}
    for formula, members in together.items():
        terms = turns[members[0]].job.reader.plan.terms
        spoken = {t: torch.cat([turns[i].heard[t].logprobs for i in members]) for t in terms}
        counts = [len(turns[i].heard[terms[0]].logprobs) for i in members]
        rows = evaluate(formula, spoken).split(counts)
        composed.update(zip(members, rows, strict=True))
    return [composed[i] for i in range(len(turns))]


def _cost(turn: Turn) -> Cost:
    answers = turn.heard
    scorers = turn.job.reader.scorers
    passes = {(id(scorers[term]), n) for term, scored in answers.items() for n in scored.passes}
    cached = [s.cached for t, s in answers.items() if not isinstance(t, Classifier) and s.passes]
    judged = sum(scored.judged for scored in answers.values())
    return Cost(len(passes), len(answers), judged, min(cached, default=0), sum(cached))
