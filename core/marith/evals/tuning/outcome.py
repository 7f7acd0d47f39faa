"""What a search found: the best formula, and the frontier of attribute and perplexity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich.table
from rich.text import Text

from marith.evals.results import dataframe, digits
from marith.evals.statistics import Figure
from marith.evals.tuning.search import Trial, best, frontier, within_bound
from marith.showing import NO_PLOT, OURS, THEIRS, can_draw, picture, say, terminal

if TYPE_CHECKING:
    import pandas

CSV, PLOT = "trials.csv", "plot.png"
BEST = "#d1495b"


@dataclass(frozen=True, slots=True)
class Outcome:
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
        """What is to be read with the table."""
        limit, bare = digits(self.most), digits(self.bare[1].mean)
        notes = [f"perplexity under M may be {limit} at most; M has {bare}"]
        refused = [trial for trial in self.trials if trial.refused]
        if refused:
            first = f"{refused[0].formula}: {refused[0].refused}"
            notes.append(f"{len(refused)} of {len(self.trials)} trials were pruned, as {first}")
        if self.best is not None and not within_bound(self.best, self.most):
            notes.append("no trial keeps the bound; the one shown comes nearest to it")
        return tuple(notes)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a row for each trial: its numbers, its figures, and whether it keeps the bound."""
        return dataframe([self._record(trial) for trial in self.trials])

    def show(self, out: Path | None = None) -> None:
        """Print the frontier and the best formula; write every trial and a picture to `out`."""
        console, (head, *rows) = terminal(), self.cells()
        table = rich.table.Table(*head)
        for cells in rows:
            table.add_row(*map(Text, cells))
        say(console, [self.title])
        console.print(table, highlight=False)
        say(console, self.notes)
        if self.best:
            say(console, [f"best: {self.best.formula}"])
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            self.to_dataframe().to_csv(out / CSV, index=False)
            if can_draw():
                draw(self, out / PLOT)
            else:
                say(console, [NO_PLOT])

    def cells(self) -> list[list[str]]:
        """Return the table: `M`, the frontier by perplexity, and which of it is best."""
        arrow = "↓" if self.better == "lower" else "↑"
        rows = [["", "formula", f"{self.attribute} {arrow}", "perplexity ↓", ""]]
        rows.append(["", "M", *map(_with_interval, self.bare), ""])
        best_trial, unbeaten = self.best, self.frontier
        for trial in unbeaten + ([best_trial] if best_trial and best_trial not in unbeaten else []):
            mark = "" if within_bound(trial, self.most) else "over the bound"
            mark = "best" if trial is best_trial else mark
            figures = _with_interval(trial.attribute), _with_interval(trial.perplexity)
            rows.append([f"trial {trial.number}", trial.formula, *figures, mark])
        return rows

    def _record(self, trial: Trial) -> dict[str, Any]:
        record: dict[str, Any] = {"trial": trial.number, **trial.factors, "formula": trial.formula}
        for what, figure in (("attribute", trial.attribute), ("perplexity", trial.perplexity)):
            numbers = asdict(figure) if figure else dict.fromkeys(Figure.__dataclass_fields__)
            record |= {f"{what} {kind}": value for kind, value in numbers.items()}
        return {
            **record,
            "keeps the bound": within_bound(trial, self.most),
            "frontier": trial in self.frontier,
            "best": trial is self.best,
            "pruned": trial.refused,
        }


def _with_interval(figure: Figure | None) -> str:
    if figure is None or not figure.count:
        return ""
    return f"{digits(figure.mean)} [{digits(figure.low)}, {digits(figure.high)}]"


def draw(outcome: Outcome, path: Path) -> None:
    """The attribute over perplexity: every trial, the frontier, the bound and the best.

    Raises RequestError where matplotlib is absent.
    """
    figure = picture(6.4, 4.2)
    axes = figure.subplots()
    if points := _points(outcome.trials):
        axes.plot(*zip(*points, strict=True), "o", color=THEIRS, label="trials")
    if points := _points(outcome.frontier):
        axes.step(*zip(*points, strict=True), "o-", where="post", color=OURS, label="frontier")
    bare = outcome.bare
    axes.plot([bare[1].mean], [bare[0].mean], "s", color="black", label="M")
    if outcome.best:
        places = zip(*_points([outcome.best]), strict=True)
        axes.plot(*places, "*", color=BEST, markersize=14, label=outcome.best.formula)
    axes.axvline(outcome.most, color="black", linewidth=0.8, linestyle="--", label="bound")
    axes.set_xlabel("perplexity under M")
    axes.set_ylabel(outcome.attribute)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def _points(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Perplexity and attribute of the trials that have both."""
    return [(t.perplexity.mean, t.attribute.mean) for t in trials if t.perplexity and t.attribute]
