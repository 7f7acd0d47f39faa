"""What a training came to, as plain data: how well prefixes of held-out texts are judged."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CSV, MARKDOWN, REPORT = "report.csv", "report.md", "report.json"
COLUMNS = ("tokens", "accuracy", "AUC-ROC", "log loss", "longer texts")


@dataclass(frozen=True, slots=True)
class Line:
    """Figures for the first `tokens` tokens of each text, and with None for whole texts.

    `longer` texts have more tokens than that; all others are read to their end in every line.
    `accuracy` and `log_loss` (in nats) count the classes alike where the training was balanced,
    and the texts alike where it was not. `auc` is the area under the ROC curve, with three
    classes and more the mean of each against the others.
    """

    tokens: int | None
    accuracy: float
    auc: float
    log_loss: float
    longer: int


@dataclass(frozen=True, slots=True)
class Report:
    """A finished training.

    `learned` and `held_out` count texts by class, in the order of the logits; `epoch_size` is how
    many an epoch has. `cut` texts are longer than `limit` tokens, marks included, and are read up
    to there. `loss` is the moving mean at the end, `seconds` the time of all steps.
    """

    base: str
    settings: Mapping[str, Any]
    learned: Mapping[str, int]
    held_out: Mapping[str, int]
    epoch_size: int
    limit: int
    cut: int
    every_prefix: bool
    steps: int
    loss: float
    seconds: float
    notices: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of the logits."""
        return tuple(self.learned)

    def to_json(self) -> str:
        """Everything there is."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """What `to_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
        data = json.loads(text)
        data["lines"] = tuple(Line(**line) for line in data["lines"])
        data["notices"] = tuple(data["notices"])
        return cls(**data)

    def write(self, out: Path) -> None:
        """Write the report in three forms. The JSON comes last, whole: it marks the end."""
        (out / CSV).write_text(self.to_csv(), encoding="utf-8")
        (out / MARKDOWN).write_text(self.to_markdown(), encoding="utf-8")
        unfinished = out / f"{REPORT}.saving"
        unfinished.write_text(self.to_json() + "\n", encoding="utf-8")
        os.replace(unfinished, out / REPORT)

    def to_csv(self) -> str:
        """The lines as a table for programs."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *map(_plain, self.lines)])
        return text.getvalue()

    def to_markdown(self) -> str:
        """The lines as a table for pages."""
        rows = [COLUMNS, ("---:",) * len(COLUMNS), *map(cells, self.lines)]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cells(line: Line) -> tuple[str, ...]:
    """A line as people read it."""
    length = "whole" if line.tokens is None else str(line.tokens)
    figures = (f"{figure:.3f}" for figure in (line.accuracy, line.auc, line.log_loss))
    return (length, *figures, str(line.longer))


def _plain(line: Line) -> Sequence[object]:
    length = "whole" if line.tokens is None else line.tokens
    return (length, line.accuracy, line.auc, line.log_loss, line.longer)
