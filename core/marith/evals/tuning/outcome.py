"""The result of a search: the best formula, and the Pareto frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from marith.console import OURS, THEIRS, picture, print_table, say, terminal
from marith.evals.results import dataframe, digits
from marith.evals.statistics import Estimate

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class Trial:
    """One assignment of numbers to the unknowns, with its estimates.

    `refused` is the reason why a formula could not be measured. Its estimates are then NaN.
    """

    number: int
    factors: Mapping[str, float]
    formula: str
    attribute: Estimate
    perplexity: Estimate
    refused: str = ""


@dataclass(frozen=True)
class Outcome:
    """The trials of a search.

    `attribute` is the measure that the search changes, and `better` ("lower" or "higher") is the
    direction of improvement. `perplexity_limit` is the highest mean perplexity allowed. `bare` has
    the attribute and the perplexity of `M`.
    """

    title: str
    attribute: str
    better: str
    perplexity_limit: float
    bare: tuple[Estimate, Estimate]
    trials: tuple[Trial, ...]

    @cached_property
    def frontier(self) -> list[Trial]:
        """The trials that no other beats in both attribute and perplexity, sorted by perplexity."""
        sign = 1 if self.better == "lower" else -1
        measured = [trial for trial in self.trials if not trial.refused]
        # In the order of perplexity, a trial has to beat the attribute of all trials before it.
        unbeaten: list[Trial] = []
        for trial in sorted(measured, key=lambda t: (t.perplexity.mean, sign * t.attribute.mean)):
            if not unbeaten or sign * (trial.attribute.mean - unbeaten[-1].attribute.mean) < 0:
                unbeaten.append(trial)
        return unbeaten

    @property
    def best(self) -> Trial | None:
        """The trial with the best attribute within the limit, or None if no trial was measured.

        If no trial is within the limit, it is the trial with the lowest perplexity.
        """
        within = [trial for trial in self.frontier if self.keeps_limit(trial)]
        return next(iter(within[-1:] or self.frontier), None)

    def keeps_limit(self, trial: Trial) -> bool:
        """Return whether a trial's mean perplexity is within the limit."""
        return trial.perplexity.mean <= self.perplexity_limit

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a row for each trial: its numbers, its estimates, and if it keeps the limit."""
        records = []
        for trial in self.trials:
            record = {"trial": trial.number, **trial.factors, "formula": trial.formula}
            for what in ("attribute", "perplexity"):
                numbers = asdict(getattr(trial, what))
                record |= {f"{what} {kind}": value for kind, value in numbers.items()}
            record |= {"keeps the limit": self.keeps_limit(trial), "pruned": trial.refused}
            record |= {"frontier": trial in self.frontier, "best": trial is self.best}
            records.append(record)
        return dataframe(records)

    def show(self, out: Path | None = None) -> None:
        """Print the frontier and the best formula; write all trials and a plot to `out`."""
        arrow = "↓" if self.better == "lower" else "↑"
        head = "", "formula", f"{self.attribute} {arrow}", "perplexity ↓", ""
        rows = [["", "M", *map(_with_interval, self.bare), ""]]
        for trial in self.frontier:
            mark = "" if self.keeps_limit(trial) else "over the limit"
            mark = "best" if trial is self.best else mark
            estimates = map(_with_interval, (trial.attribute, trial.perplexity))
            rows.append([f"trial {trial.number}", trial.formula, *estimates, mark])
        console = terminal()
        say(console, [self.title])
        print_table(console, head, rows, left=(0, 1, 4))
        say(console, self._notes())
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            self.to_dataframe().to_csv(out / "trials.csv", index=False)
            self.draw(out / "plot.png")

    def draw(self, path: Path) -> None:
        """Plot the trials and the limit. Raises RequestError if matplotlib is missing."""
        image = picture(6.4, 4.2)
        axes = image.subplots()
        axes.plot(*_points(self.trials), "o", color=THEIRS, label="trials")
        axes.step(*_points(self.frontier), "o-", where="post", color=OURS, label="frontier")
        axes.plot(self.bare[1].mean, self.bare[0].mean, "s", color="black", label="M")
        if self.best:
            place = _points([self.best])
            axes.plot(*place, "*", color="#d1495b", markersize=14, label=self.best.formula)
        axes.axvline(
            self.perplexity_limit, color="black", linewidth=0.8, linestyle="--", label="limit"
        )
        axes.set(xlabel="perplexity under M", ylabel=self.attribute)
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
        image.savefig(path, dpi=110)

    def _notes(self) -> list[str]:
        """Return the notes that are printed below the table."""
        limit, bare = digits(self.perplexity_limit), digits(self.bare[1].mean)
        notes = [f"the limit on the perplexity under M is {limit}; M itself has {bare}"]
        if refused := [trial for trial in self.trials if trial.refused]:
            first = f"{refused[0].formula}: {refused[0].refused}"
            notes.append(f"{len(refused)} of {len(self.trials)} trials were pruned: {first}")
        if self.best and not self.keeps_limit(self.best):
            notes.append("no trial keeps the limit; the best formula is the one nearest to it")
        return [*notes, f"best: {self.best.formula}"] if self.best else notes


def _with_interval(one: Estimate) -> str:
    return f"{digits(one.mean)} [{digits(one.low)}, {digits(one.high)}]"


def _points(trials: Sequence[Trial]) -> tuple[list[float], list[float]]:
    """Return the perplexities and the attributes. Matplotlib leaves out NaN."""
    return [t.perplexity.mean for t in trials], [t.attribute.mean for t in trials]
