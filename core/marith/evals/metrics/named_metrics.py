"""The metrics that a list of measures names: classifiers, lexicons, perplexity, own functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marith.errors import RequestError, shown
from marith.evals.metrics.lexicon import VADER, ToneLexicon
from marith.evals.metrics.metric import DIRECTIONS, Better, Metric
from marith.evals.metrics.own_measure import OwnMeasure, TextMeasure, imported, names_function
from marith.evals.metrics.simplicity import Simplicity
from marith.evals.metrics.text_classifier import Attribute
from marith.evals.metrics.text_perplexity import Perplexity
from marith.formula.text.term_data import Terms

PERPLEXITY = "perplexity"
TONES = ("positive", "negative")
LENGTH = "length"
_NAMED = re.compile(r"([^=:/\\]+)=(.+)", re.DOTALL)
_FILES = ("texts", "settings", "table", "report")  # of the folder of results


def metrics_of(
    measures: Sequence[str | TextMeasure | Metric],
    directions: Sequence[str],
    terms: Terms,
    device: str | None = None,
) -> tuple[Metric, ...]:
    """The metrics of `measures`, each with its direction; classifiers run on `device`.

    One direction is for all but perplexity, of which less is better. Raises RequestError for what
    is no measure, and for two of one name.
    """
    if not measures:
        raise RequestError(
            f"an evaluation needs a measure: MODEL:LABEL, {PERPLEXITY} or a function"
        )
    each = list(directions) if len(directions) == len(measures) > 1 else []
    shared: Better = DIRECTIONS[directions[0]] if directions and not each else ""
    metrics: list[Metric] = []
    for i, measure in enumerate(measures):
        better = DIRECTIONS[each[i]] if each else shared
        metrics.append(_metric(measure, better, bool(each), terms, device))
        _check_name(metrics)
    return tuple(metrics)


def parse_metric(
    name: str, text: str, better: Better = "higher", device: str | None = None
) -> Metric:
    """The judge MODEL:LABEL, a classifier's label; or vader:positive, vader:negative, length.

    A label is a class by name, or by index where no class has that name. A classifier runs on
    `device`. Raises RequestError for what is none.
    """
    model, _, label = text.rpartition(":")
    if model == VADER and label in TONES:
        return ToneLexicon(label, better)
    if text == LENGTH:
        return Simplicity(better=better)
    if not model or not label or model == VADER:
        problem = f"a judge is MODEL:LABEL, {VADER}:positive, {VADER}:negative or {LENGTH}"
        raise RequestError(f"{problem}, not {text!r}")
    return Attribute(name, model, label, better, device)


def _metric(
    measure: Any, better: Better, own_direction: bool, terms: Terms, device: str | None
) -> Metric:
    name, given = "", measure
    if isinstance(measure, str):
        if named := _NAMED.fullmatch(measure.strip()):
            name, measure = named[1].strip(), named[2].strip()
        if measure == PERPLEXITY:
            lower: Better = better if own_direction else "lower"
            return Perplexity(terms, name=name or PERPLEXITY, better=lower)
        if not names_function(measure):
            metric = parse_metric(name, measure, better, device)
            if isinstance(metric, Attribute):
                return replace(metric, name=name or _default_name(metric))
            return _not_renamed(metric, name)
        measure = imported(measure)
    if hasattr(measure, "open") and not isinstance(measure, type):
        return _not_renamed(measure, name)
    if not callable(measure) or isinstance(measure, type):
        kinds = "a text, a function of texts or a Metric"
        raise RequestError(f"a measure is {kinds}, not {shown(given)}")
    own_name = str(getattr(measure, "__name__", type(measure).__name__))
    return OwnMeasure(name or own_name, measure, better)


def _not_renamed(metric: Metric, name: str) -> Metric:
    if name and name != metric.name:
        raise RequestError(f"the name of this measure is {metric.name!r}, and cannot be {name!r}")
    return metric


def _default_name(metric: Attribute) -> str:
    """The label; a label that is a number stands behind its model."""
    label = str(metric.label).replace("/", " ").replace("\\", " ")
    return f"{Path(metric.model).name} {label}" if label.isdecimal() else label


def _check_name(metrics: Sequence[Metric]) -> None:
    """The last metric has a name of its own, which a file can have."""
    name = metrics[-1].name
    if name in _FILES or any(mark in name for mark in "/\\") or name.startswith("."):
        raise RequestError(f"a measure cannot be named {name!r}; write NAME={name}")
    if any(metric.name == name for metric in metrics[:-1]):
        raise RequestError(f"two measures are named {name!r}; write NAME=MEASURE for one of them")
