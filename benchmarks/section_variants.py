"""The variants of each section of a run, and notes about those that cannot run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from benchmarks import baselines, cost_variants, engine_variants, step_variants
from benchmarks.benchmark_settings import BenchmarkSettings
from benchmarks.peer_variants import peers, step_peers
from benchmarks.rounds import Variant
from benchmarks.timed_model import TimedModel
from marith.engine.engine import Engine

ONE, TWO = (1.0,), (baselines.GUIDANCE, 1 - baselines.GUIDANCE)
FOUR = (1.0, 1.0, -0.5, 0.3)
EIGHT = (*FOUR, 0.2, -0.2, 0.1, -0.1)
# Formulas and numbers of requests, which have 1, 4, 8 and 64 rows.
ROWS = ((ONE, 1), (FOUR, 1), (EIGHT, 1), (FOUR, 16))
LONG_SYSTEM, SHORT_QUESTION = 300, 20  # words

MakeVariants: TypeAlias = (
    "Callable[[TimedModel, Engine, BenchmarkSettings, list[str]], list[Variant]]"
)


def lanes(settings: BenchmarkSettings) -> int:
    """Return the number of lanes that an engine needs for all variants."""
    rows = [requests * len(weights) for weights, requests in ROWS]
    return max(*rows, max(settings.requests) * len(FOUR))


def _terms(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, _: list[str]
) -> list[Variant]:
    return [
        baselines.plain(subject, settings.tokens),
        baselines.guided(subject, settings.tokens),
        baselines.one_after_another(subject, FOUR, settings.tokens),
        *(
            engine_variants.terms(subject, engine, weights, settings.tokens)
            for weights in (ONE, TWO, FOUR, EIGHT)
        ),
    ]


def _step(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, _: list[str]
) -> list[Variant]:
    more = [(FOUR, count) for count in settings.requests if count > ROWS[-1][1]]
    return [
        variant
        for weights, requests in (*ROWS, *more)
        for variant in (
            step_variants.products(engine, requests * len(weights), settings.tokens),
            step_variants.step(subject, engine, weights, requests, settings.tokens),
        )
    ]


def _concurrency(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, _: list[str]
) -> list[Variant]:
    return [
        engine_variants.concurrent(subject, engine, FOUR, count, settings.tokens)
        for count in settings.requests
    ]


def _drafts(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, _: list[str]
) -> list[Variant]:
    return [
        engine_variants.concurrent(
            subject, engine, FOUR, count, settings.tokens, speculation, temperature
        )
        for temperature in (1.0, 0.0)
        for count in settings.requests
        for speculation in (None, "auto")
    ]


def _first_token(
    subject: TimedModel, engine: Engine, *_: BenchmarkSettings | list[str]
) -> list[Variant]:
    lengths = LONG_SYSTEM, SHORT_QUESTION
    return [
        engine_variants.cold(subject, engine, FOUR, *lengths),
        engine_variants.warm(subject, engine, FOUR, *lengths),
        baselines.first_token(subject, FOUR, *lengths),
    ]


def _mixed(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, _: list[str]
) -> list[Variant]:
    return [
        cost_variants.chats(subject, engine, settings.tokens),
        cost_variants.chats_beside_long(subject, engine),
        cost_variants.long_alone(subject, engine),
    ]


def _memory(
    subject: TimedModel, _: Engine, settings: BenchmarkSettings, __: list[str]
) -> list[Variant]:
    return [
        cost_variants.held(subject, settings, lanes(settings), count) for count in settings.requests
    ]


def _start(_: TimedModel, __: Engine, settings: BenchmarkSettings, ___: list[str]) -> list[Variant]:
    return cost_variants.starting(settings)


def _step_peers(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, notes: list[str]
) -> list[Variant]:
    return step_peers(subject, engine, settings, notes, ROWS)


VARIANTS_OF_SECTION: dict[str, MakeVariants] = {
    "terms": _terms,
    "step": _step,
    "concurrency": _concurrency,
    "drafts": _drafts,
    "first-token": _first_token,
    "mixed": _mixed,
    "memory": _memory,
    "start": _start,
    "peers": peers,
    "step-peers": _step_peers,
}
