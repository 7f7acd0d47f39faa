"""One turn of the engine: every job asks, each checkpoint runs once, every job hears."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from marith.decoding.evaluation import evaluate, likeliest
from marith.engine.job import Cost, Job, lane_of
from marith.formula.nodes import Formula
from marith.formula.terms import Classifier, Term
from marith.scoring.scorer import Scored, Scorer, Span


def take_step(jobs: Sequence[Job]) -> None:
    """Score, compose and tell. Nothing is told to any job before all have been composed."""
    scored: list[dict[Term, Scored]] = [{} for _ in jobs]
    _score(jobs, scored, _speaker_spans(jobs))
    _score(jobs, scored, _judge_spans(jobs, scored))
    composed = _compose(jobs, scored)
    for job, answers, logprobs in zip(jobs, scored, composed, strict=True):
        try:
            job.hear(logprobs, _cost(job, answers))
        except Exception as error:  # a job's own fault is told to its own caller
            job.fail(error)


def _speaker_spans(jobs: Sequence[Job]) -> Iterable[tuple[int, Span]]:
    for i, job in enumerate(jobs):
        text, count = job.asks()
        for term in job.reader.plan.speakers:
            yield i, Span(term, lane_of(job, term), job.reader.readings[term], text, count)


def _judge_spans(
    jobs: Sequence[Job], scored: Sequence[Mapping[Term, Scored]]
) -> Iterable[tuple[int, Span]]:
    for i, job in enumerate(jobs):
        text, count = job.asks()
        spoken = {term: answer.logprobs for term, answer in scored[i].items()}
        for judge in job.reader.plan.judges:
            tokens = likeliest(job.reader.plan.guide_of(judge), spoken, judge.candidates)
            reading = job.reader.readings[judge]
            yield i, Span(judge, lane_of(job, judge), reading, text, count, tokens)


def _score(
    jobs: Sequence[Job], scored: Sequence[dict[Term, Scored]], spans: Iterable[tuple[int, Span]]
) -> None:
    """One call a scorer, for the spans of all jobs."""
    asked: dict[Scorer, list[tuple[int, Span]]] = defaultdict(list)
    for i, span in spans:
        asked[jobs[i].reader.scorers[span.term]].append((i, span))
    for scorer, pairs in asked.items():
        answers = scorer.score([span for _, span in pairs])
        for (i, span), answer in zip(pairs, answers, strict=True):
            scored[i][span.term] = answer


def _compose(jobs: Sequence[Job], scored: Sequence[Mapping[Term, Scored]]) -> list[Tensor]:
    """The composed log-probabilities of each job; jobs of one formula are evaluated together."""
    together: dict[Formula, list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        together[job.reader.plan.formula].append(i)
    composed: dict[int, Tensor] = {}
    for formula, members in together.items():
        terms = jobs[members[0]].reader.plan.terms
        spoken = {t: torch.cat([scored[i][t].logprobs for i in members]) for t in terms}
        counts = [len(scored[i][terms[0]].logprobs) for i in members]
        rows = evaluate(formula, spoken).split(counts)
        composed.update(zip(members, rows, strict=True))
    return [composed[i] for i in range(len(jobs))]


def _cost(job: Job, answers: Mapping[Term, Scored]) -> Cost:
    passes = {(id(job.reader.scorers[t]), n) for t, s in answers.items() for n in s.passes}
    cached = [s.cached for t, s in answers.items() if not isinstance(t, Classifier) and s.passes]
    return Cost(len(passes), len(answers), min(cached, default=0))
