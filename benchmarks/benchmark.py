"""A run of the benchmark: sections in turn, each with its own engine over the same model."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from rich.progress import Progress

from benchmarks.bandwidth import Floor, bytes_per_second, with_floor
from benchmarks.benchmark_results import Machine, Result, results
from benchmarks.benchmark_settings import BenchmarkSettings
from benchmarks.rounds import interleave
from benchmarks.section_variants import VARIANTS_OF_SECTION, lanes
from benchmarks.timed_model import TimedModel
from marith.console import bars
from marith.engine.threads.workers import run_in_thread


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The results of a run, and the machine."""

    model: str
    parameters: int
    settings: BenchmarkSettings
    machine: Machine
    results: tuple[Result, ...]
    floor: Floor | None
    notes: tuple[str, ...]

    def section(self, name: str) -> list[Result]:
        """Return the results of one section, in the order of their variants."""
        return [result for result in self.results if result.section == name]


def run(settings: BenchmarkSettings) -> Benchmark:
    """Build the model and time every section. Shows progress on standard error."""
    subject = run_in_thread(lambda: TimedModel.of(settings.model, settings.shape, settings.dtype))
    taken: list[Result] = []
    notes: list[str] = []
    speeds = [run_in_thread(bytes_per_second)] if "floor" in settings.sections else []
    with bars(everywhere=True) as progress:
        for section in (name for name in VARIANTS_OF_SECTION if name in settings.sections):
            taken += _run_section(section, subject, settings, progress, notes)
            if speeds:
                speeds.append(run_in_thread(bytes_per_second))
    floor = Floor.of(subject.model, max(speeds)) if speeds else None
    return Benchmark(
        subject.name,
        subject.model.num_parameters(),
        settings,
        Machine.here(),
        tuple(with_floor(result, floor) for result in taken),
        floor,
        tuple(notes),
    )


def _run_section(
    section: str,
    subject: TimedModel,
    settings: BenchmarkSettings,
    progress: Progress,
    notes: list[str],
) -> list[Result]:
    # This frees the engine of the section before.
    gc.collect()
    with subject.engine(lanes(settings)) as engine:
        variants = VARIANTS_OF_SECTION[section](subject, engine, settings, notes)
        bar = progress.add_task(section, total=len(variants) * (settings.rounds + 1))

        def announce(name: str) -> None:
            progress.update(bar, description=f"{section}: {name}".ljust(40), advance=1)

        samples = interleave(variants, settings.rounds, announce)
    over = {variant.name: variant.over for variant in variants if variant.over is not None}
    return results(section, samples, over)
