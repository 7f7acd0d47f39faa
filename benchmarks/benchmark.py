"""`marith bench`: sections in turn, each with an engine of its own over the same plain model."""

from __future__ import annotations

import gc

from rich.progress import Progress

from benchmarks.bandwidth import Floor, bytes_per_second, with_floor
from benchmarks.benchmark_report import Benchmark
from benchmarks.benchmark_settings import BenchmarkSettings
from benchmarks.section_variants import (
    VARIANTS_OF_SECTION,
    lanes,
    longest_texts,
)
from marith.engine.threads.workers import run_in_thread
from marith.errors import ContextOverflow
from marith.evals.reporting.progress import timed_progress
from marith.evals.speed.benchmark_results import Machine, Result, results
from marith.evals.speed.rounds import interleave
from marith.evals.speed.timed_model import TimedModel


def run(settings: BenchmarkSettings) -> Benchmark:
    """Build the model, run every section and report. Shows progress on standard error.

    Raises ModelError for a model that cannot be had, ContextOverflow for one with too little
    context.
    """
    subject = run_in_thread(lambda: TimedModel.of(settings.model, settings.shape, settings.dtype))
    _check_room(subject, settings)
    taken: list[Result] = []
    notes: list[str] = []
    speeds = [run_in_thread(bytes_per_second)] if "floor" in settings.sections else []
    with timed_progress() as progress:
        for section in (name for name in VARIANTS_OF_SECTION if name in settings.sections):
            taken += _run_section(section, subject, settings, progress, notes)
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
        f"{settings.quantize} and {settings.dtype}" if settings.quantize else settings.dtype,
        tuple(notes),
    )


def _check_room(subject: TimedModel, settings: BenchmarkSettings) -> None:
    """Raise ContextOverflow, before anything is timed, for texts longer than the context."""
    for section in (name for name in VARIANTS_OF_SECTION if name in settings.sections):
        for lengths, tokens in longest_texts(section, settings):
            prompt = subject.longest(*lengths)
            if prompt + tokens > subject.context_length:
                raise ContextOverflow(
                    f"{section} is timed with prompts of {prompt} tokens: {tokens!r} more do not "
                    f"fit the context of {subject.name!r}, which holds {subject.context_length}"
                )


def _run_section(
    section: str,
    subject: TimedModel,
    settings: BenchmarkSettings,
    progress: Progress,
    notes: list[str],
) -> list[Result]:
    gc.collect()  # of the last section's engine
    with subject.engine(lanes(settings), settings.quantize) as engine:
        variants = VARIANTS_OF_SECTION[section](subject, engine, settings, notes)
        bar = progress.add_task(section, total=len(variants) * (settings.rounds + 1))

        def announce(name: str) -> None:
            progress.update(bar, description=f"{section}: {name}".ljust(40), advance=1)

        samples = interleave(variants, settings.rounds, announce)
    over = {variant.name: variant.over for variant in variants if variant.over is not None}
    return results(section, samples, over)
