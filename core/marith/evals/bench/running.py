"""The course: sections in turn, each with an engine of its own over the same plain model."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from marith.engine.engine import Engine
from marith.engine.threads.workers import apart
from marith.errors import ContextOverflow
from marith.evals.bench import ours, rivals
from marith.evals.bench.bandwidth import Floor, bytes_per_second
from marith.evals.bench.report import Machine, Report, results
from marith.evals.bench.settings import Settings
from marith.evals.bench.subject import Subject
from marith.evals.bench.timing import Contestant, Sample, interleave

ONE, TWO = (1.0,), (rivals.GUIDANCE, 1 - rivals.GUIDANCE)
FOUR = (1.0, 1.0, -0.5, 0.3)
EIGHT = (*FOUR, 0.2, -0.2, 0.1, -0.1)
REQUESTS = (1, 2, 4, 8, 16, 32)
LANES = max(REQUESTS) * len(FOUR)
LONG_SYSTEM, SHORT_QUESTION = 300, 20  # words

Samples: TypeAlias = "dict[str, list[Sample]]"
Lineup: TypeAlias = "Callable[[Subject, Engine, int], list[Contestant]]"


def run(settings: Settings) -> Report:
    """Build the model, run every section and report. Shows progress on standard error.

    Raises ModelError for a model that cannot be had, ContextOverflow for one with too little
    context.
    """
    subject = apart(lambda: Subject.of(settings))
    _check_room(subject, settings)
    taken: dict[str, Samples] = {}
    speeds = [apart(bytes_per_second)] if "floor" in settings.sections else []
    with progress_bars() as progress:
        for section in (name for name in LINEUPS if name in settings.sections):
            taken[section] = _run_section(section, subject, settings, progress)
            if speeds:
                speeds.append(apart(bytes_per_second))
    floor = Floor.of(subject.model, max(speeds)) if speeds else None
    return Report(
        subject.name,
        subject.model.num_parameters(),
        settings.tokens,
        settings.rounds,
        Machine.here(),
        tuple(
            result
            for section, samples in taken.items()
            for result in results(section, samples, floor if section == "terms" else None)
        ),
        floor,
    )


def _check_room(subject: Subject, settings: Settings) -> None:
    """Raise ContextOverflow, before anything is timed, for texts longer than the context."""
    for section in (name for name in LINEUPS if name in settings.sections):
        first = section == "first-token"
        prompt = subject.longest(*((LONG_SYSTEM, SHORT_QUESTION) if first else ()))
        tokens = 1 if first else settings.tokens
        if prompt + tokens > subject.context_length:
            raise ContextOverflow(
                f"{section} is timed with prompts of {prompt} tokens: {tokens!r} more do not fit "
                f"the context of {subject.name!r}, which holds {subject.context_length}"
            )


def _run_section(section: str, subject: Subject, settings: Settings, progress: Progress) -> Samples:
    gc.collect()  # of the last section's engine
    with Engine.load(subject.model, tokenizer=subject.tokenizer, max_lanes=LANES) as engine:
        contestants = LINEUPS[section](subject, engine, settings.tokens)
        bar = progress.add_task(section, total=len(contestants) * (settings.rounds + 1))

        def tell(name: str) -> None:
            progress.update(bar, description=f"{section}: {name}".ljust(40), advance=1)

        return interleave(contestants, settings.rounds, tell)


def _terms(subject: Subject, engine: Engine, tokens: int) -> list[Contestant]:
    return [
        rivals.plain(subject, tokens),
        rivals.guided(subject, tokens),
        rivals.one_after_another(subject, FOUR, tokens),
        *(ours.terms(subject, engine, weights, tokens) for weights in (ONE, TWO, FOUR, EIGHT)),
    ]


def _concurrency(subject: Subject, engine: Engine, tokens: int) -> list[Contestant]:
    return [ours.concurrent(subject, engine, FOUR, count, tokens) for count in REQUESTS]


def _first_token(subject: Subject, engine: Engine, tokens: int) -> list[Contestant]:  # noqa: ARG001 (a Lineup takes them)
    lengths = LONG_SYSTEM, SHORT_QUESTION
    return [
        ours.cold(subject, engine, FOUR, *lengths),
        ours.warm(subject, engine, FOUR, *lengths),
        rivals.first_token(subject, FOUR, *lengths),
    ]


LINEUPS: dict[str, Lineup] = {
    "terms": _terms,
    "concurrency": _concurrency,
    "first-token": _first_token,
}


def progress_bars(width: int = 40) -> Progress:
    """Bars of so many letters on standard error: what runs, how much is done, how long it took."""
    made = (TextColumn("{task.description}"), BarColumn(width), MofNCompleteColumn())
    return Progress(*made, TimeElapsedColumn(), console=Console(stderr=True))
