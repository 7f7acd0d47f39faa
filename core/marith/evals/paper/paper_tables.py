"""The paper's own figures, which stand beside ours: other models, other judges."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from marith.evals.experiment.texts import NamedFormula
from marith.evals.reporting.published import PublishedRow, PublishedTable

FILE = "../paper.toml"


@dataclass(frozen=True, slots=True)
class PublishedPreference:
    """How often the formula named `ours` was preferred to `theirs`, and neither, in per cent.

    For each model the three numbers: won, lost, drawn.
    """

    ours: str
    theirs: str
    figures: Mapping[str, tuple[float, ...]]


def table(name: str) -> PublishedTable:
    """The table "toxicity", "toxicity_gpt2", "positive" or "negative"."""
    data = _data()["tables"][name]
    models = tuple(data["models"])
    rows = tuple(
        PublishedRow(
            NamedFormula(name, formula), dict(zip(models, map(tuple, figures), strict=True))
        )
        for name, formula, *figures in data["rows"]
    )
    return PublishedTable(
        data["title"], tuple(data["measures"]), tuple(data["digits"]), models, rows
    )


def published_preferences(task: str) -> tuple[PublishedPreference, ...]:
    """What GPT-4 preferred in the task "toxicity", "positive" or "negative"."""
    data = _data()["judged"]
    return tuple(
        PublishedPreference(
            ours, theirs, dict(zip(data["models"], map(tuple, figures), strict=True))
        )
        for ours, theirs, *figures in data[task]
    )


@cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
