"""Measures of one's choice over the texts of formulas: any classifier, perplexity, own functions.

`Settings` say what is generated and measured, and `run` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marith.errors import RequestError, shown
from marith.evals.experiment.evaluation import Results
from marith.evals.experiment.evaluation import run as run_experiment
from marith.evals.experiment.evaluation_settings import (
    MESSAGE,
    ClusterSettings,
    check_frame,
    source_texts,
)
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.formulas import read_formulas
from marith.evals.experiment.store import write
from marith.evals.experiment.summary import Summary, summarise
from marith.evals.experiment.texts import NamedFormula, PromptRow
from marith.evals.metrics.metric import DIRECTIONS, Metric
from marith.evals.metrics.named_metrics import metrics_of
from marith.evals.metrics.own_measure import TextMeasure
from marith.evals.pocket_texts import QUESTIONS
from marith.evals.reporting.evaluation_report import EvaluationReport, dataframe, to_csv
from marith.evals.reporting.numbers import counted
from marith.formula.meaning.binding import BARE
from marith.request.stop import Stop

if TYPE_CHECKING:
    import pandas

MAX_TOKENS = 64
BY_TEXT = "by_text.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSettings(ClusterSettings):
    """Each formula answers every prompt, and all `measures` are taken of each text.

    A measure is MODEL:LABEL of a classifier, vader:positive, vader:negative, length, perplexity,
    the import path "package.module:name" of a function, each with a NAME= before it if wanted; or,
    from Python, a `TextMeasure` or a `Metric`. `directions`, "up" or "down", say what is better:
    one for all measures, or one for each. `frame` is the text around a prompt, with {message} in
    its place; texts end before a text of `stop`. Raises FormulaError, ModelError or RequestError.
    """

    measures: Sequence[str | TextMeasure | Metric]
    directions: Sequence[str] = ()
    frame: str | None = None
    stop: Sequence[str] = ()

    def __post_init__(self) -> None:
        super(TextSettings, self).__post_init__()
        for name in ("measures", "directions", "stop"):
            if isinstance(value := getattr(self, name), str):
                raise RequestError(f"{name} is a list, not {value!r}")
        check_frame(self.frame)
        for direction in self.directions:
            if direction not in DIRECTIONS:
                raise RequestError(f"a direction is up or down, not {shown(direction)}")
        if len(self.directions) not in (0, 1, len(self.measures)):
            counts = f"{len(self.directions)} for {counted(len(self.measures), 'measure')}"
            raise RequestError(
                f"there is one direction for all measures or one for each, not {counts}"
            )


Settings = TextSettings  # as callers write it: `text_evaluation.Settings(measures=…)`


@dataclass(frozen=True, slots=True)
class MeasuredTexts:
    """The figures of every formula, and the texts with their numbers."""

    summary: Summary
    results: Results

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each formula: means with their intervals, medians and counts."""
        return self.summary.to_dataframe()

    def texts_to_dataframe(self) -> pandas.DataFrame:
        """A row for each text: formula, prompt, text, and the number of every measure."""
        return dataframe(self._records())

    def report(self) -> EvaluationReport:
        """The table, every number, and a picture."""
        return self.summary.report()

    def show(self, out: Path | None = None) -> None:
        """Print the table; write all there is to `out`, a row for each text too."""
        if out is not None:
            write(out / BY_TEXT, to_csv(self._records()))
        self.report().show(out)

    def _records(self) -> list[dict[str, Any]]:
        experiment, values = self.results.experiment, self.results.values
        formulas = {line.name: line.formula for line in experiment.lines}
        return [
            {
                "name": text.line,
                "formula": formulas[text.line],
                "row": text.row,
                "sample": text.sample,
                "message": text.message,
                "text": text.text,
                "tokens": len(text.tokens),
                **{metric.name: values[metric.name][text.key] for metric in experiment.measures},
            }
            for text in self.results.texts
        ]


def run(settings: TextSettings, ask: bool = False) -> MeasuredTexts:
    """Generate the texts and measure them, as an application would ask: in the chat template.

    Without formulas it is `M` alone. With `ask` a terminal is asked before a very long run. Raises
    FormulaError, ModelError or RequestError before anything is generated.
    """
    formulas = read_formulas(settings.formulas)
    prompts = source_texts(settings, QUESTIONS)
    terms = {**formulas.terms, **settings.terms}
    frame = settings.frame or MESSAGE
    experiment = Experiment(
        "texts",
        settings.model,
        formulas.lines or (NamedFormula(BARE, BARE),),
        terms,
        tuple(PromptRow(row, text, frame.replace(MESSAGE, text)) for row, text in prompts.texts),
        metrics_of(settings.measures, settings.directions, terms, settings.device),
        settings.seed,
        settings.samples,
        settings.temperature,
        Stop(settings.tokens(MAX_TOKENS), tuple(settings.stop)),
        prompts.source,
        settings.device,
        settings.dtype,
        settings.revision,
        settings.backend,
        settings.ray,
    )
    notes = (*formulas.notes, *prompts.notes)
    results = run_experiment(experiment, settings.out, notes, ask)
    count = counted(len(experiment.prompts), "prompt")
    title = f"texts of {settings.model}: {count}, {prompts.source}, seed {settings.seed}"
    return MeasuredTexts(summarise(results, title, notes=notes), results)
