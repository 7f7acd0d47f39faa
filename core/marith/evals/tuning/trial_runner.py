"""One formula after another on the same prompts, with the same seeds; what is known is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from marith.engine.engine import Engine
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.results import Results
from marith.evals.experiment.store import Journal
from marith.evals.experiment.text_generation import generate_texts, texts_in
from marith.evals.experiment.texts import FILE, NamedFormula
from marith.evals.metrics.metric import Metric, ValuesOfTexts, values_of
from marith.evals.metrics.statistics import Figure, figure


class LoadedMetric:
    """A measure that loads what it needs once for all formulas. Keeps state: what it loaded."""

    def __init__(self, measure: Metric) -> None:
        self.name, self.better = measure.name, measure.better
        self.of_engine = measure.of_engine
        self.described, self.check = measure.described, measure.check
        self._measure = measure
        self._ask: ValuesOfTexts | None = None

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """As the measure does at first."""
        self._ask = self._ask or self._measure.open(engine)
        return self._ask


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
        self._measures = {
            LoadedMetric(measure): Journal(folder / f"{measure.name}.jsonl")
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
            generate_texts(experiment, missing, self._engine, self._texts, self._advance)
            self._made = texts_in(self._texts)
        texts = tuple(self._made[task.key] for task in tasks)
        values = {
            metric.name: values_of(metric, texts, journal, self._engine, lambda _: None)
            for metric, journal in self._measures.items()
        }
        results = Results(experiment, texts, values)
        return {name: figure(results.by_prompt(formula, name)) for name in values}
