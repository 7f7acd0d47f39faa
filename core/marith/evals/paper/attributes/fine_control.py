"""Runs the curves: every formula once, every prompt alone, and all texts judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from marith.errors import RequestError
from marith.evals.experiment.evaluation import run as run_experiment
from marith.evals.experiment.evaluation_settings import ClusterSettings, source_texts
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.texts import NamedFormula, PromptRow
from marith.evals.metrics.metric import Metric
from marith.evals.metrics.named_metrics import parse_metric
from marith.evals.metrics.text_classifier import Attribute
from marith.evals.metrics.text_perplexity import Perplexity
from marith.evals.paper.attributes.attribute_metrics import OPEN, POCKET, TOPICS
from marith.evals.paper.attributes.curves import CLASSIFIER, CURVES, SYSTEM_PROMPT_NAMES, Curve
from marith.evals.paper.attributes.measured_curves import MeasuredCurves, measured_curves
from marith.evals.pocket_texts import QUESTIONS
from marith.evals.reporting.numbers import counted
from marith.evals.system_prompts import SYSTEM_PROMPTS
from marith.formula.text.term_data import Terms
from marith.formula.tree.terms import Classifier
from marith.request.stop import Stop

MAX_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSettings(ClusterSettings):
    """As every evaluation's, of the curves that `only` numbers; all six where it numbers none.

    `judges` say by MODEL:LABEL who measures an attribute, and `classifier` is the classifier C, so
    written too. Pocket has judges and a classifier of its own; other models have the paper's.
    Raises ModelError or RequestError.
    """

    only: tuple[int, ...] = ()
    judges: Mapping[str, str] = field(default_factory=dict)
    classifier: str | None = None

    def __post_init__(self) -> None:
        super(CurveSettings, self).__post_init__()
        if self.formulas:
            raise RequestError(f"the curves have formulas of their own, not {self.formulas!r}")
        for number in self.only:
            if number not in range(1, len(CURVES) + 1):
                raise RequestError(f"a curve is numbered from 1 to {len(CURVES)}, not {number!r}")
        for attribute in self.judges:
            if attribute not in POCKET:
                raise RequestError(f"a judge is of {', '.join(POCKET)}, not {attribute!r}")
        names = [measure.name for measure in self.measures.values()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise RequestError(f"two attributes have one judge, {twice!r}")
        _ = self.all_terms

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Those that are asked for, in the paper's order."""
        return tuple(c for i, c in enumerate(CURVES, 1) if i in self.only or not self.only)

    @property
    def measures(self) -> dict[str, Metric]:
        """The judge of each of their attributes."""
        metrics = {
            name: replace(metric, device=self.device) if isinstance(metric, Attribute) else metric
            for name, metric in (POCKET if self.is_pocket else OPEN).items()
        }
        for name, text in self.judges.items():
            metrics[name] = parse_metric(name, text, device=self.device)
        return {curve.attribute: metrics[curve.attribute] for curve in self.curves}

    @property
    def all_terms(self) -> Terms:
        """The paper's system prompts, the classifier, and the terms that were given."""
        default = "pocket-education:educational" if self.is_pocket else f"{TOPICS}:10"
        description = parse_metric(CLASSIFIER, self.classifier or default).described()
        if "model" not in description:
            raise RequestError(f"C is a classifier, not {self.classifier!r}")
        term = Classifier(description["model"], label=description["label"])
        return {
            **{v: SYSTEM_PROMPTS[v] for v in SYSTEM_PROMPT_NAMES},
            CLASSIFIER: term,
            **self.terms,
        }


def run(settings: CurveSettings, ask: bool = False) -> MeasuredCurves:
    """All points of all curves (paper, section "Fine-grained Control"), and the prompts alone.

    With `ask` a terminal is asked before a very long run. Raises FormulaError, ModelError or
    RequestError before anything is made.
    """
    questions = source_texts(settings, QUESTIONS)
    curves = settings.curves
    alone = {"helpful", *(curve.attribute for curve in curves if curve.prompted)}
    prompted = [name for name in SYSTEM_PROMPT_NAMES if name in alone]
    texts = dict.fromkeys(curve.at(value) for curve in curves for value in curve.values)
    experiment = Experiment(
        "attributes",
        settings.model,
        tuple(NamedFormula(text, text) for text in (*prompted, *texts)),
        settings.all_terms,
        tuple(PromptRow(row, text, text) for row, text in questions.texts),
        (*settings.measures.values(), Perplexity(settings.all_terms)),
        settings.seed,
        settings.samples,
        settings.temperature,
        Stop(settings.tokens(MAX_TOKENS)),
        questions.source,
        settings.device,
        settings.dtype,
        settings.revision,
        settings.backend,
        settings.ray,
    )
    names = {attribute: measure.name for attribute, measure in settings.measures.items()}
    results = run_experiment(experiment, settings.out, questions.notes, ask)
    title = f"attributes of {settings.model}: {counted(len(experiment.prompts), 'prompt')}, "
    title += f"{experiment.source}, seed {experiment.seed}"
    measured = measured_curves(curves, results, names)
    return MeasuredCurves(title, measured, experiment.settings(), questions.notes)
