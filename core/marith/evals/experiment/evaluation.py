"""Runs an evaluation, texts first and then judges, and resumes an interrupted run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby, islice, zip_longest
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import monotonic

from marith.engine.engine import Engine
from marith.evals.experiment.experiment import Experiment, TextTask
from marith.evals.experiment.ray_actors import ray_texts
from marith.evals.experiment.store import Journal, opened
from marith.evals.experiment.text_generation import (
    IN_FLIGHT,
    EngineTexts,
    TextSource,
    generate_texts,
    load_engine,
    texts_in,
)
from marith.evals.experiment.texts import FILE, Text
from marith.evals.metrics.metric import Metric, Values, values_of
from marith.evals.reporting.estimate import RemainingTime, announce
from marith.evals.reporting.numbers import counted
from marith.evals.reporting.progress import Bars, print_notes, progress


@dataclass(frozen=True, slots=True)
class Results:
    """The texts in the order of lines, prompts and samples; their values by measure."""

    experiment: Experiment
    texts: tuple[Text, ...]
    values: Mapping[str, Values]

    def by_prompt(self, line: str, measure: str) -> list[float | None]:
        """For each prompt the mean over its samples; None where none of them has a number."""
        by_key, samples = self.values[measure], range(self.experiment.samples)
        means: list[float | None] = []
        for prompt in self.experiment.prompts:
            values = [by_key[line, prompt.row, sample] for sample in samples]
            present = [value for value in values if value is not None]
            means.append(fmean(present) if present else None)
        return means

    def of_line(self, line: str) -> list[Text]:
        """A line's texts."""
        return [text for text in self.texts if text.line == line]


def run(
    experiment: Experiment,
    out: Path | None = None,
    notes: Sequence[str] = (),
    ask: bool = False,
) -> Results:
    """Make all texts and measure them. Every text and number is kept in `out` once it is known.

    The same experiment goes on where it was broken off, and a finished one is only read; without
    `out` nothing is kept. Shows notes, the time that a long run takes, and progress on standard
    error; with `ask` a terminal is asked before a very long one. Raises ModelError for a model or
    judge that cannot be had, RequestError for a prompt that does not fit or a run that is refused,
    and as `opened` does.
    """
    for measure in experiment.measures:
        measure.check()
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(opened(folder, experiment.settings()))
        print_notes(notes)
        bars = Bars(stack.enter_context(progress()), len(experiment.lines))
        texts, values = _with_engine(experiment, folder, bars, ask)
        for measure in experiment.measures:
            if not measure.of_engine:
                values[measure.name] = _measure(measure, texts, folder, None, bars)
    return Results(experiment, tuple(texts), values)


def _with_engine(
    experiment: Experiment, folder: Path, bars: Bars, ask: bool
) -> tuple[list[Text], dict[str, Values]]:
    """The texts, and what the engine says of them; it is loaded only if something is missing."""
    journal = Journal(folder / FILE)
    tasks = list(experiment.tasks())
    measures = [measure for measure in experiment.measures if measure.of_engine]
    texts_by_key = texts_in(journal)
    missing = [task for task in tasks if task.key not in texts_by_key]
    if texts_by_key:
        print_notes([f"made before: {len(texts_by_key)} of {counted(len(tasks), 'text')}"])
    if missing and experiment.ray:
        with ray_texts(experiment) as actors:
            _generate(experiment, missing, actors, journal, bars, ask)
        missing = []
    counts = [len(Journal(folder / f"{measure.name}.jsonl").lines) for measure in measures]
    needed = missing or any(count < len(tasks) for count in counts)
    with load_engine(experiment) if needed else nullcontext() as engine:
        if engine and missing:
            source = EngineTexts(experiment, engine)
            _generate(experiment, missing, source, journal, bars, ask)
        texts_by_key = texts_in(journal)
        texts = [texts_by_key[task.key] for task in tasks]
        values = {m.name: _measure(m, texts, folder, engine, bars) for m in measures}
    return texts, values


def _generate(
    experiment: Experiment,
    missing: Sequence[TextTask],
    source: TextSource,
    journal: Journal,
    bars: Bars,
    ask: bool,
) -> None:
    """The missing texts, a few of every formula first: these say how long the others take."""
    texts_per_formula = len(experiment.prompts) * experiment.samples
    for name in dict.fromkeys(task.line.name for task in missing):
        missing_count = sum(task.line.name == name for task in missing)
        bars.begin(name, texts_per_formula, texts_per_formula - missing_count)
    first = first_tasks(missing)
    keys = {task.key for task in first}
    begun = monotonic()
    generate_texts(source, first, journal, bars.advance)
    rest = [task for task in missing if task.key not in keys]
    advance: Callable[[str], None] = bars.advance
    if first and rest:
        seconds = (monotonic() - begun) / len(first) * len(rest)
        with bars.paused():
            announce(seconds, counted(len(rest), "text"), ask)
        advance = _announcing(
            RemainingTime(seconds, len(rest), source.concurrency), len(rest), bars
        )
    generate_texts(source, rest, journal, advance)


def _announcing(rest: RemainingTime, count: int, bars: Bars) -> Callable[[str], None]:
    """Return a function that advances a bar and announces a changed estimate."""

    def advance(name: str) -> None:
        nonlocal count
        count -= 1
        bars.advance(name)
        left = rest.advance()
        if left is not None:
            with bars.paused():
                announce(left, counted(count, "text"), ask=False)

    return advance


def first_tasks(missing: Sequence[TextTask]) -> list[TextTask]:
    """Tasks of every line in turn, an eighth of all but no more than `IN_FLIGHT`; none of few."""
    lines = groupby(missing, key=lambda task: task.line.name)
    in_turn = zip_longest(*(list(tasks) for _, tasks in lines))
    every = (task for tasks in in_turn for task in tasks if task is not None)
    return list(islice(every, min(IN_FLIGHT, len(missing) // 8 if len(missing) >= 32 else 0)))


def _measure(
    measure: Metric, texts: Sequence[Text], folder: Path, engine: Engine | None, bars: Bars
) -> Values:
    journal = Journal(folder / f"{measure.name}.jsonl")
    bars.begin(measure.name, len(texts))
    return values_of(
        cache(partial(measure.open, engine)), texts, journal, partial(bars.advance, measure.name)
    )
