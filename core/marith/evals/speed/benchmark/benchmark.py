"""`marith bench`: sections in turn, each with an engine of its own over the same plain model."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.progress import Progress

from marith.engine.engine import Engine
from marith.engine.threads.workers import run_in_thread
from marith.errors import ContextOverflow
from marith.evals.reporting.evaluation_report import check_sections
from marith.evals.reporting.progress import timed_progress
from marith.evals.speed.benchmark import baselines, engine_variants
from marith.evals.speed.benchmark.bandwidth import Floor, bytes_per_second
from marith.evals.speed.benchmark.benchmark_report import Benchmark
from marith.evals.speed.benchmark.benchmark_results import Machine, Result, results, with_floor
from marith.evals.speed.benchmark.costs import step_variants
from marith.evals.speed.benchmark.rounds import Variant, interleave
from marith.evals.speed.benchmark.shape import LlamaShape
from marith.evals.speed.benchmark.timed_model import TimedModel
from marith.request.checks import by, hold, whole_from
from marith.scoring.checkpoints.locate import locate

SECTIONS = ("terms", "step", "concurrency", "first-token", "floor")
ONE, TWO = (1.0,), (baselines.GUIDANCE, 1 - baselines.GUIDANCE)
FOUR = (1.0, 1.0, -0.5, 0.3)
EIGHT = (*FOUR, 0.2, -0.2, 0.1, -0.1)
REQUESTS = (1, 2, 4, 8, 16, 32)
ROWS = ((ONE, 1), (FOUR, 1), (EIGHT, 1), (FOUR, 16))  # 1, 4, 8 and 64: a formula, and requests
LANES = max(REQUESTS) * len(FOUR)
LONG_SYSTEM, SHORT_QUESTION = 300, 20  # words

MakeVariants: TypeAlias = "Callable[[TimedModel, Engine, int], list[Variant]]"


@dataclass(frozen=True, slots=True)
class BenchmarkSettings:
    """A run of the bench.

    Without `model` it is on a random Llama of `shape`; with both, on the model inflated to the
    shape. Each variant makes `tokens` tokens a round. Raises ModelError or RequestError.
    """

    model: str | None = None
    shape: LlamaShape | None = None
    tokens: int = field(default=32, metadata=by(whole_from(2)))  # the first is timed by itself
    rounds: int = field(default=5, metadata=by(whole_from(1)))
    sections: Sequence[str] = SECTIONS

    def __post_init__(self) -> None:
        hold(self)
        check_sections(self.sections, SECTIONS)
        if self.model is not None:
            locate(self.model)


def run(settings: BenchmarkSettings) -> Benchmark:
    """Build the model, run every section and report. Shows progress on standard error.

    Raises ModelError for a model that cannot be had, ContextOverflow for one with too little
    context.
    """
    subject = run_in_thread(lambda: TimedModel.of(settings.model, settings.shape))
    _check_room(subject, settings)
    taken: list[Result] = []
    speeds = [run_in_thread(bytes_per_second)] if "floor" in settings.sections else []
    with timed_progress() as progress:
        for section in (name for name in VARIANTS_OF_SECTION if name in settings.sections):
            taken += _run_section(section, subject, settings, progress)
            if speeds:
                speeds.append(run_in_thread(bytes_per_second))
    floor = Floor.of(subject.model, max(speeds)) if speeds else None
    return Benchmark(
        subject.name,
        subject.model.num_parameters(),
        settings.tokens,
        settings.rounds,
        Machine.here(),
        tuple(with_floor(result, floor) for result in taken),
        floor,
    )


def _check_room(subject: TimedModel, settings: BenchmarkSettings) -> None:
    """Raise ContextOverflow, before anything is timed, for texts longer than the context."""
    for section in (name for name in VARIANTS_OF_SECTION if name in settings.sections):
        first = section == "first-token"
        prompt = subject.longest(*((LONG_SYSTEM, SHORT_QUESTION) if first else ()))
        tokens = 1 if first else settings.tokens
        if prompt + tokens > subject.context_length:
            raise ContextOverflow(
                f"{section} is timed with prompts of {prompt} tokens: {tokens!r} more do not fit "
                f"the context of {subject.name!r}, which holds {subject.context_length}"
            )


def _run_section(
    section: str, subject: TimedModel, settings: BenchmarkSettings, progress: Progress
) -> list[Result]:
    gc.collect()  # of the last section's engine
    with Engine.load(subject.model, tokenizer=subject.tokenizer, max_lanes=LANES) as engine:
        variants = VARIANTS_OF_SECTION[section](subject, engine, settings.tokens)
        bar = progress.add_task(section, total=len(variants) * (settings.rounds + 1))

        def announce(name: str) -> None:
            progress.update(bar, description=f"{section}: {name}".ljust(40), advance=1)

        samples = interleave(variants, settings.rounds, announce)
    over = {variant.name: variant.over for variant in variants if variant.over is not None}
    return results(section, samples, over)


def _terms(subject: TimedModel, engine: Engine, tokens: int) -> list[Variant]:
    return [
        baselines.plain(subject, tokens),
        baselines.guided(subject, tokens),
        baselines.one_after_another(subject, FOUR, tokens),
        *(
            engine_variants.terms(subject, engine, weights, tokens)
            for weights in (ONE, TWO, FOUR, EIGHT)
        ),
    ]


def _step(subject: TimedModel, engine: Engine, tokens: int) -> list[Variant]:
    return [
        variant
        for weights, requests in ROWS
        for variant in (
            step_variants.products(engine, requests * len(weights), tokens),
            step_variants.step(subject, engine, weights, requests, tokens),
        )
    ]


def _concurrency(subject: TimedModel, engine: Engine, tokens: int) -> list[Variant]:
    return [engine_variants.concurrent(subject, engine, FOUR, count, tokens) for count in REQUESTS]


def _first_token(subject: TimedModel, engine: Engine, tokens: int) -> list[Variant]:  # noqa: ARG001 (all of its kind take them)
    lengths = LONG_SYSTEM, SHORT_QUESTION
    return [
        engine_variants.cold(subject, engine, FOUR, *lengths),
        engine_variants.warm(subject, engine, FOUR, *lengths),
        baselines.first_token(subject, FOUR, *lengths),
    ]


VARIANTS_OF_SECTION: dict[str, MakeVariants] = {
    "terms": _terms,
    "step": _step,
    "concurrency": _concurrency,
    "first-token": _first_token,
}
