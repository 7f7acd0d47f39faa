"""What a search found: the best formula, and the frontier of attribute and perplexity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from marith.evals.metrics.statistics import Figure
from marith.evals.reporting.evaluation_report import PLOT, EvaluationReport
from marith.evals.reporting.numbers import digits, with_interval
from marith.evals.reporting.table import Table
from marith.evals.tuning.search import Trial, best, frontier, within_bound
from marith.showing import OURS, THEIRS, picture

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
        lacking = [trial for trial in self.trials if trial.perplexity and trial.perplexity.missing]
        if lacking:
            notes.append(f"{len(lacking)} trials left a prompt without an answer; see the CSV")
        return tuple(notes)

    def report(self) -> EvaluationReport:
        """The frontier, every trial, and a picture of them."""
        best_trial, unbeaten = self.best, self.frontier
        data = {**asdict(self), "best": best_trial and asdict(best_trial)}
        data["frontier"] = [trial.number for trial in unbeaten]
        marked = ((trial, trial in unbeaten, trial is best_trial) for trial in self.trials)
        return EvaluationReport(
            self.title,
            [self.table()],
            data,
            [self._record(*trial) for trial in marked],
            self.notes,
            best=best_trial.formula if best_trial else "",
            significant=None,
            plots={PLOT: partial(draw, self)},
        )

    def table(self) -> Table:
        """`M`, the frontier by perplexity, and which of it is best."""
        arrow = "↓" if self.better == "lower" else "↑"
        head = ["", "formula", f"{self.attribute} {arrow}", "perplexity ↓", ""]
        rows = [["", "M", *map(with_interval, self.bare), ""]]
        best_trial, unbeaten = self.best, self.frontier
        for trial in unbeaten + ([best_trial] if best_trial and best_trial not in unbeaten else []):
            mark = "" if within_bound(trial, self.most) else "over the bound"
            mark = "best" if trial is best_trial else mark
            figures = with_interval(trial.attribute), with_interval(trial.perplexity)
            rows.append([f"trial {trial.number}", trial.formula, *figures, mark])
        return Table(head, rows, left=(0, 1, 4))

    def _record(self, trial: Trial, on_frontier: bool, is_best: bool) -> dict[str, Any]:
        """All that is known of a trial, by the name of its column."""
        record: dict[str, Any] = {"trial": trial.number, **trial.factors, "formula": trial.formula}
        for what, statistic in (("attribute", trial.attribute), ("perplexity", trial.perplexity)):
            numbers = asdict(statistic) if statistic else dict.fromkeys(Figure.__dataclass_fields__)
            record |= {f"{what} {kind}": value for kind, value in numbers.items()}
        return {
            **record,
            "keeps the bound": within_bound(trial, self.most),
            "frontier": on_frontier,
            "best": is_best,
            "pruned": trial.refused,
        }


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
