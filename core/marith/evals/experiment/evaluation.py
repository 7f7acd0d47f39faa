"""Runs an evaluation, texts first and then judges, and resumes an interrupted run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from marith.engine.engine import Engine
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.store import Journal, opened
from marith.evals.experiment.text_generation import generate_texts, texts_in
from marith.evals.experiment.texts import FILE, Text
from marith.evals.metrics.metric import Metric, Values, values_of
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


def run(experiment: Experiment, out: Path | None = None, notes: Sequence[str] = ()) -> Results:
    """Make all texts and measure them. Every text and number is kept in `out` once it is known.

    The same experiment goes on where it was broken off, and a finished one is only read; without
    `out` nothing is kept. Shows notes and progress on standard error. Raises ModelError for a
    model or judge that cannot be had, RequestError for a prompt that does not fit, and as `opened`
    does.
    """
    for measure in experiment.measures:
        measure.check()
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(opened(folder, experiment.settings()))
        print_notes(notes)
        bars = Bars(stack.enter_context(progress()), len(experiment.lines))
        texts, values = _with_engine(experiment, folder, bars)
        for measure in experiment.measures:
            if not measure.of_engine:
                values[measure.name] = _measure(measure, texts, folder, None, bars)
    return Results(experiment, tuple(texts), values)


def _with_engine(
    experiment: Experiment, folder: Path, bars: Bars
) -> tuple[list[Text], dict[str, Values]]:
    """The texts, and what the engine says of them; it is loaded only if something is missing."""
    journal = Journal(folder / FILE)
    tasks = list(experiment.tasks())
    measures = [measure for measure in experiment.measures if measure.of_engine]
    texts_by_key = texts_in(journal)
    missing = [task for task in tasks if task.key not in texts_by_key]
    if texts_by_key:
        print_notes([f"made before: {len(texts_by_key)} of {counted(len(tasks), 'text')}"])
    counts = [len(Journal(folder / f"{measure.name}.jsonl").lines) for measure in measures]
    needed = missing or any(count < len(tasks) for count in counts)
    with Engine.load(experiment.model) if needed else nullcontext() as engine:
        if engine and missing:
            texts_per_formula = len(tasks) // len(experiment.lines)
            for name in dict.fromkeys(task.line.name for task in missing):
                missing_count = sum(task.line.name == name for task in missing)
                bars.begin(name, texts_per_formula, texts_per_formula - missing_count)
            generate_texts(experiment, missing, engine, journal, bars.advance)
            texts_by_key = texts_in(journal)
        texts = [texts_by_key[task.key] for task in tasks]
        values = {m.name: _measure(m, texts, folder, engine, bars) for m in measures}
    return texts, values


def _measure(
    measure: Metric, texts: Sequence[Text], folder: Path, engine: Engine | None, bars: Bars
) -> Values:
    journal = Journal(folder / f"{measure.name}.jsonl")
    bars.begin(measure.name, len(texts))
    return values_of(
        cache(partial(measure.open, engine)), texts, journal, partial(bars.advance, measure.name)
    )
