"""Who won how often, as plain data and as a table, the paper's own figures beside it."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marith.evals.judging.counting import Share, share, sign_test
from marith.evals.paper import Judged, judgements

HEAD = ("ours", "against", "won", "lost", "drawn", "sign test", "pairs", "unreadable")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One formula against another: how many answers preferred which, and neither.

    `unreadable` answers do not say; `unpaired` prompts have one text only; `first` answers
    preferred what was shown first.
    """

    ours: str
    theirs: str
    won: int
    lost: int
    drawn: int
    unreadable: int
    unpaired: int
    first: int

    @property
    def told(self) -> int:
        """How many answers say what they prefer."""
        return self.won + self.lost + self.drawn

    @property
    def shares(self) -> tuple[Share, Share, Share]:
        """Won, lost and drawn, of the answers that say it."""
        counts = self.won, self.lost, self.drawn
        return tuple(share(count, self.told) for count in counts)  # type: ignore[return-value]

    @property
    def sign_test(self) -> float:
        """How likely so uneven a score is among equals."""
        return sign_test(self.won, self.lost)


@dataclass(frozen=True, slots=True)
class Report:
    """All comparisons of a task by one judge."""

    title: str
    task: str
    comparisons: tuple[Comparison, ...]
    settings: Mapping[str, Any]

    @property
    def paper(self) -> list[Judged]:
        """The paper's own of these comparisons, or of the task where it has none of them."""
        known = judgements(self.task)
        asked = {(one.ours, one.theirs) for one in self.comparisons}
        return [one for one in known if (one.ours, one.theirs) in asked] or list(known)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be read with the table."""
        told = []
        for one in self.comparisons:
            name = f"{one.ours} against {one.theirs}"
            if one.unreadable:
                told.append(f"{name}: {one.unreadable} answers do not say what they prefer")
            if one.unpaired:
                told.append(f"{name}: {one.unpaired} texts are left out, for the other has none")
            if one.won + one.lost:
                first = share(one.first, one.won + one.lost)
                told.append(f"{name}: {_span(first)} of the preferred texts were shown first")
        return tuple(told)

    def to_json(self) -> str:
        """Everything there is."""
        data = asdict(self)
        for told, one in zip(data["comparisons"], self.comparisons, strict=True):
            names = ("won", "lost", "drawn")
            told["shares"] = {n: _plain(asdict(s)) for n, s in zip(names, one.shares, strict=True)}
            told["sign_test"] = one.sign_test
        data["paper"] = [asdict(one) for one in self.paper]
        return json.dumps(data, indent=2, ensure_ascii=False)

    def to_csv(self) -> str:
        """A line for each comparison."""
        told = io.StringIO()
        writer = csv.writer(told, lineterminator="\n")
        shares = [f"{what} {kind}" for what in ("won", "lost", "drawn")
                  for kind in ("share", "low", "high")]  # fmt: skip
        counts = ("won", "lost", "drawn", "unreadable", "unpaired", "first")
        writer.writerow(["ours", "against", *counts, *shares, "sign test"])
        for one in self.comparisons:
            numbers = [getattr(one, name) for name in counts]
            parts = [number for s in one.shares for number in (s.value, s.low, s.high)]
            cells = ["" if math.isnan(number) else f"{number:.4g}" for number in parts]
            writer.writerow([one.ours, one.theirs, *numbers, *cells, f"{one.sign_test:.4g}"])
        return told.getvalue()

    def to_markdown(self) -> str:
        """The table, its notes and the paper's."""
        right = ["---", "---", *["---:"] * (len(HEAD) - 2)]
        lines = [f"{self.title}\n", *map(_markdown, (HEAD, right, *self.cells())), ""]
        lines += [f"- {note}" for note in self.notes]
        head, *rows = self.printed()
        lines += ["", "The paper's, by GPT-4 (won / lost / drawn):\n", _markdown(head)]
        lines += [_markdown(["---", "---", *["---:"] * (len(head) - 2)]), *map(_markdown, rows)]
        return "\n".join(lines) + "\n"

    def cells(self) -> list[list[str]]:
        """A row for each comparison."""
        return [
            [
                one.ours,
                one.theirs,
                *map(_span, one.shares),
                f"p = {one.sign_test:.2g}",
                str(one.told + one.unreadable),
                str(one.unreadable),
            ]
            for one in self.comparisons
        ]

    def printed(self) -> list[list[str]]:
        """The paper's rows, with their head."""
        known = self.paper
        models = list(known[0].figures) if known else []
        rows = [
            [one.ours, one.theirs, *(_slashed(one.figures[model]) for model in models)]
            for one in known
        ]
        return [["ours", "against", *models], *rows]


def _slashed(figures: Sequence[float]) -> str:
    return " / ".join(f"{number / 100:.2f}" for number in figures)


def _span(one: Share) -> str:
    if math.isnan(one.value):
        return ""
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"


def _plain(data: dict[str, float]) -> dict[str, float | None]:
    return {key: None if math.isnan(value) else value for key, value in data.items()}


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
