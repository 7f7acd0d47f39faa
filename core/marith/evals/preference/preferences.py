"""Who won how often: comparisons of formulas, and the paper's own beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from marith.evals.metrics.statistics import Share, share, sign_test
from marith.evals.paper.paper_tables import PublishedPreference, published_preferences
from marith.evals.reporting.evaluation_report import PLOT, EvaluationReport
from marith.evals.reporting.table import Table
from marith.showing import OURS, THEIRS, picture

HEAD = ("ours", "against", "won", "lost", "drawn", "sign test", "pairs", "unreadable")
PAPERS = "The paper's, by GPT-4 (won / lost / drawn):"


@dataclass(frozen=True, slots=True)
class PreferenceCounts:
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
    def name(self) -> str:
        """Which formulas are compared."""
        return f"{self.ours} against {self.theirs}"

    @property
    def readable(self) -> int:
        """How many answers say what they prefer."""
        return self.won + self.lost + self.drawn

    @property
    def shares(self) -> dict[str, Share]:
        """Won, lost and drawn, of the answers that say it."""
        counts = {"won": self.won, "lost": self.lost, "drawn": self.drawn}
        return {name: share(count, self.readable) for name, count in counts.items()}

    @property
    def sign_test(self) -> float:
        """The p-value of the sign test."""
        return sign_test(self.won, self.lost)

    @property
    def notes(self) -> list[str]:
        """What is to be read with its line of the table."""
        notes = []
        if self.unreadable:
            notes.append(f"{self.name}: {self.unreadable} answers do not say what they prefer")
        if self.unpaired:
            notes.append(f"{self.name}: {self.unpaired} texts are left out, for the other has none")
        if self.won + self.lost:
            first = _written(share(self.first, self.won + self.lost))
            notes.append(f"{self.name}: {first} of the preferred texts were shown first")
        return notes

    def row(self) -> list[str]:
        """Its line of the table."""
        return [
            self.ours,
            self.theirs,
            *map(_written, self.shares.values()),
            f"p = {self.sign_test:.2g}",
            str(self.readable + self.unreadable),
            str(self.unreadable),
        ]

    def record(self) -> dict[str, Any]:
        """Every number, by the name of its column."""
        counts = ("won", "lost", "drawn", "unreadable", "unpaired", "first")
        shares = {
            f"{name} {kind}": value
            for name, part in self.shares.items()
            for kind, value in zip(("share", "low", "high"), asdict(part).values(), strict=True)
        }
        numbers = {name: getattr(self, name) for name in counts}
        pair = {"ours": self.ours, "against": self.theirs}
        return {**pair, **numbers, **shares, "sign test": self.sign_test}


@dataclass(frozen=True, slots=True)
class Preferences:
    """All comparisons of a task by one judge."""

    title: str
    task: str
    comparisons: tuple[PreferenceCounts, ...]
    settings: Mapping[str, Any]

    @property
    def paper(self) -> list[PublishedPreference]:
        """The paper's own of these comparisons, or of the task where it has none of them."""
        published = published_preferences(self.task)
        pairs = {(counts.ours, counts.theirs) for counts in self.comparisons}
        shared = [row for row in published if (row.ours, row.theirs) in pairs]
        return shared or list(published)

    def report(self) -> EvaluationReport:
        """Our table and the paper's, every number, and a picture of ours."""
        data = asdict(self)
        for plain, counts in zip(data["comparisons"], self.comparisons, strict=True):
            plain["shares"] = {name: asdict(part) for name, part in counts.shares.items()}
            plain["sign_test"] = counts.sign_test
        data["paper"] = [asdict(row) for row in self.paper]
        return EvaluationReport(
            self.title,
            [Table(HEAD, [counts.row() for counts in self.comparisons], left=(0, 1))],
            data,
            [counts.record() for counts in self.comparisons],
            [note for counts in self.comparisons for note in counts.notes],
            published=[_published(self.paper)],
            plots={PLOT: partial(draw, self.comparisons)},
        )


def draw(comparisons: Sequence[PreferenceCounts], path: Path) -> None:
    """A bar for each comparison: won, drawn and lost. Raises RequestError without matplotlib."""
    figure = picture(6.4, 1.2 + 0.5 * len(comparisons))
    axes = figure.subplots()
    names = [counts.name for counts in comparisons]
    left = [0.0] * len(names)
    for part, colour in (("won", OURS), ("drawn", "#e9ecef"), ("lost", THEIRS)):
        widths = [counts.shares[part].value if counts.readable else 0.0 for counts in comparisons]
        axes.barh(names, widths, left=left, color=colour, label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, ncols=3)
    figure.savefig(path, dpi=110)


def _published(published: Sequence[PublishedPreference]) -> Table:
    """The paper's comparisons, a column for each of its models."""
    models = list(published[0].figures) if published else []
    rows = [
        [row.ours, row.theirs, *(_per_cent(row.figures[model]) for model in models)]
        for row in published
    ]
    return Table(["ours", "against", *models], rows, left=(0, 1), title=PAPERS)


def _per_cent(figures: Sequence[float]) -> str:
    return " / ".join(f"{number / 100:.2f}" for number in figures)


def _written(part: Share) -> str:
    """A share with two digits, as many as hundreds of pairs determine."""
    return "" if math.isnan(part.value) else f"{part.value:.2f} [{part.low:.2f}, {part.high:.2f}]"
