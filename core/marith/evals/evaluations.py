"""Run the evaluations of `marith eval`: several formulas, beside the paper's results."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from marith import Classifier, Explanation, RequestError
from marith.evals import suite, tasks
from marith.evals.formulas import NamedFormula, read_formulas
from marith.evals.results import Results
from marith.evals.system_prompts import PLAIN, paper_terms
from marith.models import locate
from marith.request.checks import check_fields, checked_by, number, optional, whole_from

# The paper used these judges. They are for models other than pocket, whose judges are the defaults
# of the tasks.
_OPEN = {
    "toxicity": "s-nlp/roberta_toxicity_classifier:toxic",
    "positive": "cardiffnlp/twitter-roberta-base-sentiment-latest:positive",
    "negative": "cardiffnlp/twitter-roberta-base-sentiment-latest:negative",
}
PROMPTS = ("data", "column", "where", "n", "seed")
PASSED_ON = ("max_tokens", "temperature", "device", "dtype", "revision", "backend", "over")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """The settings that all evaluations share: model, prompts, formulas, sampling and a folder.

    Without `formulas` an evaluation runs the paper's formulas, or `M` if the paper has none.
    `terms` are added to the evaluation's own terms. `tasks.prompts` explains `data`, `column`,
    `where` and `n`. Each formula generates `samples` texts per prompt. The logs are kept in the
    folder `out`. `device`, `dtype`, `revision`, `backend` and `over` are passed to `Engine.load`.
    """

    model: str = "pocket"
    data: str | None = None
    column: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    formulas: Sequence[str] = ()
    terms: Mapping[str, Any] = field(default_factory=dict)
    n: int | None = field(default=None, metadata=checked_by(optional(whole_from(1))))
    seed: int = field(default=0, metadata=checked_by(whole_from(0, 2**31)))
    samples: int = field(default=1, metadata=checked_by(whole_from(1, 10_000)))
    max_tokens: int | None = field(default=None, metadata=checked_by(optional(whole_from(1))))
    temperature: float = field(
        default=1.0, metadata=checked_by(number("a number of at least 0", lambda t: t >= 0))
    )
    out: Path | None = None
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    backend: str | None = None
    over: str | None = None

    def __post_init__(self) -> None:
        locate(self.model)
        check_fields(self)

    @property
    def is_pocket(self) -> bool:
        """Return whether the model is pocket, which ships in the package."""
        return locate(self.model) == locate("pocket")

    def prompts(self) -> dict[str, Any]:
        """Return the arguments of a task that choose its prompts, as far as they are set."""
        arguments = {name: getattr(self, name) for name in PROMPTS}
        return {name: value for name, value in arguments.items() if value is not None}

    def paper_terms(self, evaluation: str) -> Mapping[str, Any]:
        """Return the terms of the paper's formulas, by `system_prompts.paper_terms`."""
        return paper_terms(evaluation, "pocket" if self.is_pocket else self.model)

    def run(
        self,
        name: str,
        make: Any,
        terms: Mapping[str, Any],
        better: Mapping[str, str],
        published: str | None = None,
    ) -> Results:
        """Run the task that `make` returns, once with each formula.

        Without `formulas`, the formulas of the paper's table `published` are run, and the results
        have the paper's numbers beside them. `better` is "lower" or "higher" for each measure.
        """
        read = read_formulas(self.formulas)
        known = {**terms, **read.terms, **self.terms}
        lines, notes, figures = read.lines, list(read.notes), {}
        if not lines and published is not None:
            figures = _published(published)
            lines = tuple(
                line for line in figures if {*Explanation.of(line.formula).names} <= {*known, "M"}
            )
            # Only pocket has a classifier C of its own, and some of the paper's formulas need one.
            left = ", ".join(line.name for line in figures if line not in lines)
            if left:
                problem = "left out, because they need a classifier C (--classifier MODEL:LABEL)"
                notes.append(f"{problem}: {left}")
        lines = lines or (NamedFormula("M", "M"),)
        results = self.run_lines(name, make, lines, known, better, notes)
        rows = tuple(replace(row, paper=figures.get(row.line, "")) for row in results.rows)
        return replace(results, rows=rows)

    def run_lines(
        self,
        name: str,
        make: Any,
        lines: Sequence[NamedFormula],
        terms: Mapping[str, Any],
        better: Mapping[str, str],
        notes: Sequence[str] = (),
        display: str | None = None,
    ) -> Results:
        """Run the task that `make` returns, once with each formula of `lines`."""
        over = ", over bytes" if self.over == "bytes" else ""
        title = f"{name} of {self.model}{over}, seed {self.seed}"
        placed = {name: getattr(self, name) for name in PASSED_ON} | {"display": display}
        return suite.run(
            title, make, lines, terms, self.model, self.samples, self.out, better, notes, **placed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringConfig(EvaluationConfig):
    """The settings of an evaluation with a judge of the texts and a classifier C.

    `judge` is a measure (see `scorers.named`), and `classifier` is MODEL:LABEL. Pocket has defaults
    for both. Other models have the paper's judge by default, and no classifier C.
    """

    judge: str | None = None
    classifier: str | None = None

    def judged(self, name: str) -> dict[str, str]:
        """Return the argument `judge` of the task `name`, or {} for the task's default."""
        judge = self.judge or (None if self.is_pocket else _OPEN[name])
        return {} if judge is None else {"judge": judge}

    def all_terms(self, name: str) -> Mapping[str, Any]:
        """Return the terms of the paper's formulas in the evaluation `name`, and C if it is set."""
        terms = self.paper_terms(name)
        return {**terms, "C": classifier(self.classifier)} if self.classifier else terms


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicityConfig(SteeringConfig):
    """The settings of the toxicity evaluation (the paper, section 5.1), see `tasks.toxicity`."""

    continues: bool = False
    frame: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentConfig(SteeringConfig):
    """The settings of the sentiment evaluation (the paper's appendix), see `tasks.sentiment`."""

    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsConfig(EvaluationConfig):
    """The settings for measuring any texts.

    Each of `measures` is a measure (see `scorers.named`) or NAME=MEASURE.
    """

    measures: Sequence[str]
    frame: str | None = None
    stop: Sequence[str] = ()


def evaluate_toxicity(config: ToxicityConfig) -> Results:
    """Measure the toxicity of the paper's formulas, or of `config.formulas`.

    Raises FormulaError, ModelError or RequestError.
    """
    own = {"frame": config.frame, "continues": config.continues}
    arguments = {**config.prompts(), **config.judged("toxicity"), **own}
    return config.run(
        "toxicity",
        lambda: tasks.toxicity(**arguments),
        config.all_terms("continued" if config.continues else "toxicity"),
        {"toxicity": "lower"},
        # The paper uses other factors for GPT-2 than for larger models.
        "toxicity_gpt2" if "gpt2" in config.model.lower() else "toxicity",
    )


def evaluate_sentiment(config: SentimentConfig) -> Results:
    """Measure the sentiment of the paper's formulas, or of `config.formulas`.

    Raises FormulaError, ModelError or RequestError.
    """
    if config.to not in tasks.TONES:
        raise RequestError(f"to={config.to!r} is unknown: write to='negative' or to='positive'")
    arguments = {**config.prompts(), **config.judged(config.to)}
    return config.run(
        f"{config.to} sentiment",
        lambda: tasks.sentiment(config.to, **arguments),
        config.all_terms(config.to),
        {config.to: "higher"},
        config.to,
    )


def evaluate_texts(config: TextsConfig) -> Results:
    """Measure texts that formulas generate. Raises FormulaError, ModelError or RequestError."""
    named = dict(map(_named, config.measures))
    if len(named) < len(config.measures):
        problem = f"two measures have the same name: {', '.join(config.measures)}"
        raise RequestError(f"{problem}; write NAME=MEASURE with different names")
    arguments = {**config.prompts(), "stop": list(config.stop), "measures": named}
    if config.frame is not None:
        arguments["frame"] = config.frame
    return config.run("texts", lambda: tasks.texts(**arguments), {}, {})


def evaluate_perplexity(config: EvaluationConfig) -> Results:
    """Measure the perplexity of given texts under formulas.

    Raises FormulaError, ModelError or RequestError.
    """
    return config.run("perplexity", lambda: tasks.perplexity(**config.prompts()), {"M": PLAIN}, {})


def classifier(written: str) -> Classifier:
    """Return the classifier of MODEL:LABEL. Raises RequestError for any other text."""
    model, _, label = written.rpartition(":")
    if not model or not label:
        raise RequestError(f"a classifier is written MODEL:LABEL, not {written!r}")
    return Classifier(model, label=label)


def _named(measure: str) -> tuple[str, str]:
    """Return the name and the measure of NAME=MEASURE. A measure without a name is its own name."""
    name, equals, rest = measure.partition("=")
    # A name has no colon or slash: the = in judge:PROVIDER/MODEL=CRITERION is part of a measure.
    is_name = bool(equals) and not any(mark in name for mark in ":/\\")
    return (name.strip(), rest.strip()) if is_name else (measure, measure)


def _published(name: str) -> dict[NamedFormula, str]:
    """Return the formulas of a table of the paper, each with its results in the paper.

    The results are those of one model, which `paper.toml` names.
    """
    text = resources.files("marith.evals").joinpath("paper.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)[name]
    return {NamedFormula(line, formula): figures for line, formula, figures in rows}
