"""One formula after another on the same prompts, with the same seeds; what is known is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from marith.engine.engine import Engine
from marith.evals.experiment.evaluation import Results
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.store import Journal
from marith.evals.experiment.text_generation import generate_texts, texts_in
from marith.evals.experiment.texts import FILE, NamedFormula
from marith.evals.metrics.metric import values_of
from marith.evals.metrics.statistics import Figure, figure


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
            generate_texts(experiment, missing, self._engine, self._texts, self._advance)
            self._made = texts_in(self._texts)
        texts = tuple(self._made[task.key] for task in tasks)
        values = {
            name: values_of(load, texts, journal, lambda _: None)
            for name, (load, journal) in self._measures.items()
        }
        results = Results(experiment, texts, values)
        return {name: figure(results.by_prompt(formula, name)) for name in values}
