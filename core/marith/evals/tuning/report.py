"""What a search found, as plain data and as tables: the best formula and the frontier."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marith.evals.experiment.figures import Figure
from marith.evals.experiment.report import digits
from marith.evals.tuning.search import Trial, best, frontier, keeps

KINDS = ("mean", "low", "high", "median", "count", "missing")


@dataclass(frozen=True, slots=True)
class Report:
    """All trials, `M`'s own figures, and the bound: a mean perplexity of `most`.

    `attribute` says in words what was to go `better`, "lower" or "higher".
    """

    title: str
    attribute: str
    better: str
    most: float
    bare: tuple[Figure, Figure]
    trials: tuple[Trial, ...]
    settings: Mapping[str, Any]

    @property
    def best(self) -> Trial | None:
        """The trial to take; None where none has figures."""
        return best(self.trials, self.better, self.most)

    @property
    def frontier(self) -> list[Trial]:
        """The trials that no other beats in both ways."""
        return frontier(self.trials, self.better)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be read with the tables."""
        told = [f"perplexity under M may be {digits(self.most)} at most; M has {self._bare()}"]
        refused = [trial for trial in self.trials if trial.refused]
        if refused:
            first = f"{refused[0].formula}: {refused[0].refused}"
            told.append(f"{len(refused)} of {len(self.trials)} trials were pruned, as {first}")
        chosen = self.best
        if chosen is not None and not keeps(chosen, self.most):
            told.append("no trial keeps the bound; the one told comes nearest to it")
        lacking = [trial for trial in self.trials if trial.perplexity and trial.perplexity.missing]
        if lacking:
            told.append(f"{len(lacking)} trials left a prompt without an answer; see the CSV")
        return tuple(told)

    def to_json(self) -> str:
        """Everything there is; what is no number is null."""
        data = {**asdict(self), "best": self.best and asdict(self.best)}
        data["frontier"] = [trial.number for trial in self.frontier]
        return json.dumps(_plain(data), indent=2, ensure_ascii=False)

    def to_csv(self) -> str:
        """A line for each trial."""
        told = io.StringIO()
        writer = csv.writer(told, lineterminator="\n")
        names = list(self.trials[0].factors) if self.trials else []
        heads = [f"{what} {kind}" for what in ("attribute", "perplexity") for kind in KINDS]
        marks = ["keeps the bound", "frontier", "best"]
        writer.writerow(["trial", *names, "formula", *heads, *marks, "pruned"])
        ahead, chosen = self.frontier, self.best
        for trial in self.trials:
            found = [f for f in (trial.attribute, trial.perplexity) if f]
            numbers = [getattr(f, kind) for f in found for kind in KINDS] or [""] * len(heads)
            stands = [keeps(trial, self.most), trial in ahead, trial is chosen]
            known = trial.number, *trial.factors.values(), trial.formula
            writer.writerow([*known, *numbers, *stands, trial.refused])
        return told.getvalue()

    def to_markdown(self) -> str:
        """The best formula, the frontier and the notes."""
        head, *rows = self.cells()
        right = ["---", "---", "---:", "---:", "---"]
        table = [_markdown(cells) for cells in (head, right, *rows)]
        chosen = self.best
        formula = f"```\n{chosen.formula}\n```\n" if chosen else ""
        return "\n".join(
            [f"{self.title}\n", formula, *table, "", *(f"- {note}" for note in self.notes), ""]
        )

    def cells(self) -> list[list[str]]:
        """The table's head; `M`, the frontier by perplexity, and which of it is best."""
        arrow = "↓" if self.better == "lower" else "↑"
        rows = [["", "formula", f"{self.attribute} {arrow}", "perplexity ↓", ""]]
        rows.append(["", "M", *map(_told, self.bare), ""])
        chosen = self.best
        shown = self.frontier + ([chosen] if chosen and chosen not in self.frontier else [])
        for trial in shown:
            assert trial.attribute is not None
            assert trial.perplexity is not None
            mark = "best" if trial is chosen else ""
            mark = mark or ("" if keeps(trial, self.most) else "over the bound")
            told = _told(trial.attribute), _told(trial.perplexity)
            rows.append([f"trial {trial.number}", trial.formula, *told, mark])
        return rows

    def _bare(self) -> str:
        return digits(self.bare[1].mean)


def _told(one: Figure) -> str:
    return f"{digits(one.mean)} [{digits(one.low)}, {digits(one.high)}]" if one.count else ""


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _plain(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
