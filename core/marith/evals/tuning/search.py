"""The search: trials that learn from those before them, and the best that keeps the bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from marith.errors import FormulaError, RequestError
from marith.evals.statistics import Figure
from marith.evals.tuning.unknowns import Range, filled

NO_OPTUNA = "a search needs optuna: pip install 'marith[evals]'"

Measure = Callable[[str], tuple[Figure, Figure]]


@dataclass(frozen=True, slots=True)
class Trial:
    """One assignment of the unknowns and its figures; `refused` says why there are none."""

    number: int
    factors: Mapping[str, float]
    formula: str
    attribute: Figure | None = None
    perplexity: Figure | None = None
    refused: str = ""


def check() -> None:
    """Raise RequestError where the optimiser is absent."""
    if find_spec("optuna") is None:
        raise RequestError(NO_OPTUNA)


def search(
    formula: str,
    ranges: Sequence[Range],
    better: str,
    most: float,
    trials: int,
    seed: int,
    measure: Measure,
    advance: Callable[[Trial], None],
) -> list[Trial]:
    """So many trials, by a tree-structured Parzen estimator (Bergstra et al., 2011).

    The first three are the middle and the ends of all ranges. `measure` returns the attribute and
    the perplexity of a formula; the latter should be `most` at most. Where it raises FormulaError,
    the trial is pruned. The same seed and answers make the same trials, however many there are.
    """
    import optuna  # an extra that only this function needs

    optuna.logging.set_verbosity(optuna.logging.ERROR)  # its warnings print a traceback at Ctrl-C
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed),
        direction="minimize" if better == "lower" else "maximize",
    )
    for where in ("middle", "low", "high"):
        study.enqueue_trial({r.name: getattr(r, where) for r in ranges})
    history: list[Trial] = []

    def objective(proposal: optuna.Trial) -> float:
        suggested = [(r, proposal.suggest_float(r.name, r.low, r.high)) for r in ranges]
        factors = {r.name: r.written(value) for r, value in suggested}
        history.append(trial := _tried(proposal.number, formula, factors, measure))
        advance(trial)
        if trial.attribute is None or trial.perplexity is None:
            proposal.set_constraint("perplexity", math.inf)
            raise optuna.TrialPruned(trial.refused)
        proposal.set_constraint("perplexity", trial.perplexity.mean - most)
        return trial.attribute.mean

    study.optimize(objective, n_trials=trials)
    return history


def best(trials: Sequence[Trial], better: str, most: float) -> Trial | None:
    """The farthest in the wanted direction of those that keep the bound.

    Where none does, the one that comes nearest to it; None where none has figures.
    """
    measured = [trial for trial in trials if trial.attribute and trial.perplexity]
    within = [trial for trial in measured if within_bound(trial, most)]
    if not within:
        return min(measured, key=_cost, default=None)
    return min(within, key=lambda t: (_signed(t, better), _cost(t)))


def within_bound(trial: Trial, most: float) -> bool:
    """Whether a trial's perplexity is within the bound."""
    return trial.perplexity is not None and trial.perplexity.mean <= most


def frontier(trials: Sequence[Trial], better: str) -> list[Trial]:
    """Those that no other beats in both attribute and perplexity, by perplexity."""
    measured = [trial for trial in trials if trial.attribute and trial.perplexity]
    unbeaten: list[Trial] = []
    best_so_far = math.inf
    for trial in sorted(measured, key=lambda t: (_cost(t), _signed(t, better))):
        if _signed(trial, better) < best_so_far:
            unbeaten.append(trial)
            best_so_far = _signed(trial, better)
    return unbeaten


def _tried(number: int, formula: str, factors: Mapping[str, float], measure: Measure) -> Trial:
    text = formula
    try:
        text = filled(formula, factors)
        attribute, perplexity = measure(text)
    except FormulaError as error:
        return Trial(number, factors, text, refused=str(error).split("\n")[0])
    if not (attribute.count and perplexity.count):
        return Trial(number, factors, text, refused="its texts are empty")
    return Trial(number, factors, text, attribute, perplexity)


def _signed(trial: Trial, better: str) -> float:
    """The attribute, such that less is better."""
    assert trial.attribute is not None
    return trial.attribute.mean if better == "lower" else -trial.attribute.mean


def _cost(trial: Trial) -> float:
    assert trial.perplexity is not None
    return trial.perplexity.mean
