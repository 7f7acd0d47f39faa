"""Runs a search, `M` first and then trial after trial, and resumes an interrupted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from marith.engine.engine import Engine
from marith.evals.experiment.evaluation import Results
from marith.evals.experiment.evaluation_settings import MESSAGE, source_texts
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.store import Journal, opened
from marith.evals.experiment.text_generation import (
    EngineTexts,
    generate_texts,
    load_engine,
    texts_in,
)
from marith.evals.experiment.texts import FILE, NamedFormula, PromptRow
from marith.evals.metrics.metric import values_of
from marith.evals.metrics.statistics import Figure, figure
from marith.evals.metrics.text_perplexity import Perplexity
from marith.evals.paper import sentiment
from marith.evals.reporting.numbers import counted
from marith.evals.reporting.progress import Bars, progress
from marith.evals.tuning.goal import DEFAULT_COUNT, TuningSettings
from marith.evals.tuning.outcome import Outcome
from marith.evals.tuning.search import Trial, check, search
from marith.formula.meaning.binding import BARE
from marith.request.stop import Stop


def run(settings: TuningSettings) -> Outcome:
    """Seek the unknowns. Every text and number is kept in `out` as soon as it is known.

    The same search goes on where it was broken off, or with more trials: it is made again, and
    what it measured before is read. Shows progress on standard error. Raises FormulaError,
    ModelError or RequestError.
    """
    check()
    experiment = _experiment(settings)
    for measure in experiment.measures:
        measure.check()
    described = {**experiment.settings(), **settings.described()}
    with ExitStack() as stack:
        folder = settings.out or Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(opened(folder, described))
        bars = Bars(stack.enter_context(progress()), 1)
        engine = stack.enter_context(load_engine(experiment))
        bare, trials = _sought(settings, experiment, folder, engine, bars)
    title = f"{settings.formula} over {settings.model}: {counted(len(trials), 'trial')} on "
    title += f"{counted(len(experiment.prompts), 'prompt')}, {experiment.source}"
    most, better = settings.bound.over(bare[1].mean), settings.measure.better
    return Outcome(title, settings.attribute, better, most, bare, tuple(trials), described)


def _sought(
    settings: TuningSettings, experiment: Experiment, folder: Path, engine: Engine, bars: Bars
) -> tuple[tuple[Figure, Figure], list[Trial]]:
    """The figures of `M`, attribute and perplexity, and all trials."""
    texts_per_formula = len(experiment.prompts) * experiment.samples
    bars.begin("texts", (settings.trials + 1) * texts_per_formula)
    bars.begin("trials", settings.trials)
    runner = TrialRunner(experiment, folder, engine, lambda _: bars.advance("texts"))

    def measure(formula: str) -> tuple[Figure, Figure]:
        attribute, perplexity = runner.figures(formula).values()
        return attribute, perplexity

    bare = measure(BARE)
    trials = search(
        settings.formula,
        settings.ranges,
        settings.measure.better,
        settings.bound.over(bare[1].mean),
        settings.trials,
        settings.seed,
        measure,
        lambda _: bars.advance("trials"),
    )
    return bare, trials


def _experiment(settings: TuningSettings) -> Experiment:
    """All but the formulas, which come one after another."""
    task = settings.tuning_task
    prompts = source_texts(settings, task.prompts, DEFAULT_COUNT)
    rows, texts = zip(*prompts.texts, strict=True)
    beginnings: Sequence[str] = texts
    if settings.task == "sentiment":
        beginnings = sentiment.beginnings(settings.model, texts, revision=settings.revision)
    frame = settings.frame or task.frame
    assert task.stop.max_tokens is not None, "a task bounds its texts"
    stop = Stop(settings.tokens(task.stop.max_tokens), settings.stop or task.stop.strings)
    return Experiment(
        "tuning",
        settings.model,
        (NamedFormula(BARE, BARE),),
        settings.all_terms,
        tuple(
            PromptRow(row, text, frame.replace(MESSAGE, beginning))
            for row, text, beginning in zip(rows, texts, beginnings, strict=True)
        ),
        (settings.measure, Perplexity(settings.all_terms)),
        settings.seed,
        settings.samples,
        settings.temperature,
        stop,
        prompts.source,
        settings.device,
        settings.dtype,
        settings.revision,
        settings.backend,
    )


class TrialRunner:
    """Generates and measures the texts of formulas, each once. Keeps state: a folder's journals.

    The experiment has all but the formulas; `advance` is called for each text.
    """

    def __init__(
        self, experiment: Experiment, folder: Path, engine: Engine, advance: Callable[[str], None]
    ) -> None:
        self._experiment = experiment
        self._engine = engine
        self._advance = advance
        self._texts = Journal(folder / FILE)
        self._made = texts_in(self._texts)
        self._measures = {  # each loads what it needs once for all formulas
            measure.name: (
                cache(partial(measure.open, engine)),
                Journal(folder / f"{measure.name}.jsonl"),
            )
            for measure in experiment.measures
        }

    def figures(self, formula: str) -> Mapping[str, Figure]:
        """The figure of every measure. Raises FormulaError for a formula that means nothing."""
        experiment = replace(self._experiment, lines=(NamedFormula(formula, formula),))
        tasks = list(experiment.tasks())
        missing = [task for task in tasks if task.key not in self._made]
        for _ in range(len(tasks) - len(missing)):
            self._advance(formula)
        if missing:
            source = EngineTexts(experiment, self._engine)
            generate_texts(source, missing, self._texts, self._advance)
            self._made = texts_in(self._texts)
        texts = tuple(self._made[task.key] for task in tasks)
        values = {
            name: values_of(load, texts, journal, lambda _: None)
            for name, (load, journal) in self._measures.items()
        }
        results = Results(experiment, texts, values)
        return {name: figure(results.by_prompt(formula, name)) for name in values}
