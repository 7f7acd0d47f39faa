"""What toxicity and sentiment have in common: a table of the paper, a classifier C, and a judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from marith.errors import ModelError, RequestError
from marith.evals.experiment import evaluation as running
from marith.evals.experiment.evaluation_settings import ClusterSettings, names_in
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.formulas import NamedFormulas, read_formulas
from marith.evals.experiment.summary import Summary, summarise
from marith.evals.metrics.lexicon import VADER, ToneLexicon
from marith.evals.metrics.metric import Better, Metric
from marith.evals.metrics.text_classifier import Attribute
from marith.evals.reporting.numbers import counted
from marith.evals.reporting.published import PublishedTable
from marith.formula.text.term_data import Terms
from marith.formula.tree.terms import Classifier

CLASSIFIER = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringSettings(ClusterSettings):
    """As every evaluation's; `judge` measures the texts, and `classifier` is the classifier C.

    A judge is a classifier, whose `judge_label` is measured, or "vader". Without them pocket has
    both of its own, and other models an open judge and no `C`.
    """

    judge: str | None = None
    judge_label: str | None = None
    classifier: str | None = None
    classifier_label: str | None = None


@dataclass(frozen=True, slots=True)
class AttributeGoal:
    """What is measured and steered: pocket's classifier and an open one, each with its label.

    `prefers` is the label of pocket's classifier that C makes likelier, `tone` what a lexicon
    finds instead.
    """

    name: str
    better: Better
    pocket: tuple[str, str]
    open: tuple[str, str]
    prefers: str
    tone: str


@dataclass(frozen=True, slots=True)
class SteeringEvaluation:
    """An experiment, the paper's table beside it, and notes for the reader."""

    experiment: Experiment
    table: PublishedTable
    notes: tuple[str, ...]


def formulas_and_terms(
    settings: SteeringSettings, goal: AttributeGoal, table: PublishedTable, terms: Terms
) -> tuple[NamedFormulas, Terms]:
    """The formulas that are asked for, or the table's, and all terms.

    Without a classifier those of the table that need one are left out, and a note says so.
    """
    given = read_formulas(settings.formulas)
    all_terms: Terms = {**terms, **_classifier(settings, goal), **given.terms, **settings.terms}
    if settings.classifier and CLASSIFIER in {*given.terms, *settings.terms}:
        raise RequestError(
            f"{CLASSIFIER} is a term already; the classifier {settings.classifier!r} is one more"
        )
    if given.lines:
        return given, all_terms
    lines = [
        line for line in table.lines if CLASSIFIER in all_terms or CLASSIFIER not in names_in(line)
    ]
    left = [line.name for line in table.lines if line not in lines]
    note = f"left out without a classifier {CLASSIFIER} (--classifier MODEL): {', '.join(left)}"
    return NamedFormulas(tuple(lines), notes=(note,) if left else ()), all_terms


def attribute_metric(
    settings: SteeringSettings, goal: AttributeGoal
) -> tuple[Metric, tuple[str, ...]]:
    """The metric of the attribute, and notes about it. Raises ModelError or RequestError."""
    model, label = settings.judge, settings.judge_label
    if model in (None, VADER) and label is not None:
        raise RequestError(f"a label is of a classifier that judges, and there is none: {label!r}")
    if model == VADER:
        return ToneLexicon(goal.tone, goal.better), ()
    if model is not None:
        return Attribute(goal.name, model, label or goal.open[1], goal.better, settings.device), ()
    default = Attribute(goal.name, *goal.pocket, goal.better, settings.device)
    if settings.is_pocket:
        return default, (f"{_named(default)} judges; it was trained on pocket's own texts",)
    open_metric = Attribute(goal.name, *goal.open, goal.better, settings.device)
    try:
        open_metric.check()
    except ModelError:
        note = f"{_named(default)} judges; it was trained on pocket's texts alone"
        return default, (f"{note}: {open_metric.model} cannot be had; --judge names another",)
    return open_metric, (f"{_named(open_metric)} judges",)


def run(evaluation: SteeringEvaluation, out: Path | None, ask: bool = False) -> Summary:
    """Do it, and put the paper's table beside it."""
    experiment = evaluation.experiment
    results = running.run(experiment, out, evaluation.notes, ask)
    count = counted(len(experiment.prompts), "prompt")
    title = f"{experiment.evaluation} of {experiment.model}: {count}, {experiment.source}"
    title = f"{title}, seed {experiment.seed}"
    return summarise(results, title, evaluation.table, evaluation.notes)


def _classifier(settings: SteeringSettings, goal: AttributeGoal) -> dict[str, Classifier]:
    """The term C, where there is a classifier for it."""
    if settings.classifier is None:
        if settings.classifier_label is not None:
            label = settings.classifier_label
            raise RequestError(f"a classifier's label needs a classifier: {label!r}")
        if not settings.is_pocket:
            return {}
        return {CLASSIFIER: Classifier(goal.pocket[0], label=goal.prefers)}
    label = settings.classifier_label or goal.prefers
    return {CLASSIFIER: Classifier(settings.classifier, label=label)}


def _named(measure: Attribute) -> str:
    return f"{measure.model} ({measure.label})"
