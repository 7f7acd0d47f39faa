"""Search for the numbers of a formula that change an attribute most while texts stay fluent."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from inspect_ai import Task

from marith import FormulaError, RequestError, parse
from marith.console import bars
from marith.evals import tasks
from marith.evals.evaluations import EvaluationConfig
from marith.evals.formulas import NamedFormula
from marith.evals.statistics import Estimate, estimate
from marith.evals.tuning.outcome import Outcome, Trial
from marith.evals.tuning.unknowns import Range, check_names, filled
from marith.request.checks import checked_by, whole_from

DIRECTIONS = {"up": "higher", "down": "lower"}
# Each task uses the terms of this evaluation of the paper (see `paper_terms`).
TERMS = {"chat": "attributes", "toxicity": "toxicity", "sentiment": "positive"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningConfig(EvaluationConfig):
    """The settings of a search for the numbers that move `attribute` farthest in `direction`.

    `formula` has unknowns in the place of numbers, and `ranges` has their intervals. Each of
    `trials` assignments is measured on the same prompts (64 without `n`) with the same seeds.
    `attribute` is a measure (see `scorers.named`). The mean perplexity under `M` must not exceed
    `perplexity_limit` (see `highest`). `task` sets the frame around prompts, the stop strings and
    the terms; `frame` and `stop` replace the task's, and `terms` are added. Raises FormulaError,
    ModelError or RequestError.
    """

    formula: str
    ranges: tuple[Range, ...]
    attribute: str
    direction: str
    perplexity_limit: str | float = "1.2x"
    trials: int = field(default=30, metadata=checked_by(whole_from(1, 100_000)))
    task: str = "chat"
    frame: str | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super(TuningConfig, self).__post_init__()
        if self.task not in TERMS:
            raise RequestError(f"task is one of {', '.join(TERMS)}, not {self.task!r}")
        if self.task == "sentiment" and self.frame is not None:
            raise RequestError(f"task='sentiment' has no frame: leave out frame={self.frame!r}")
        if self.direction not in DIRECTIONS:
            raise RequestError(f"direction is down or up, not {self.direction!r}")
        if self.formulas:
            raise RequestError(f"a search has one formula: leave out formulas={self.formulas!r}")
        highest(self.perplexity_limit, 1.0)
        check_names(self.formula, self.ranges, self.all_terms)
        middle = filled(self.formula, {unknown.name: unknown.middle for unknown in self.ranges})
        parse(middle, self.all_terms)

    @property
    def all_terms(self) -> Mapping[str, Any]:
        """The terms of the task together with `terms`."""
        return {**self.paper_terms(TERMS[self.task]), **self.terms}

    def make(self) -> Task:
        """Return the task that measures a trial."""
        arguments = {**self.prompts(), "n": self.n or 64}
        if self.frame is not None:
            arguments["frame"] = self.frame
        if self.task == "toxicity":
            made = tasks.toxicity(judge=self.attribute, **arguments)
        elif self.task == "sentiment":
            made = tasks.sentiment(judge=self.attribute, **arguments)
        else:
            made = tasks.texts(measures=[self.attribute], **arguments)
        made.config.stop_seqs = [*self.stop] or made.config.stop_seqs
        return made

    def measure(self, formula: str) -> tuple[Estimate, Estimate]:
        """Return the attribute and the perplexity. Raises FormulaError if no text has a number."""
        line = NamedFormula(formula, formula)
        results = self.run_lines("", self.make, [line], self.all_terms, {}, display="none")
        (row,) = results.rows
        attribute, perplexity = row.estimate(results.measures[0]), row.estimate("perplexity")
        if not (attribute.count and perplexity.count):
            raise FormulaError(f"the measures of {formula} have no number: its texts may be empty")
        return attribute, perplexity


def run(config: TuningConfig) -> Outcome:
    """Run a search. The logs of each finished trial are kept in `out`.

    The same call resumes a search that was stopped, and a larger `trials` extends it. The search
    makes the same trials again, and reads the logs of trials that were measured. Raises
    FormulaError, ModelError or RequestError.
    """
    if find_spec("optuna") is None:
        raise RequestError("a search needs optuna: pip install 'marith[evals]'")
    bare = config.measure("M")
    limit, better = highest(config.perplexity_limit, bare[1].mean), DIRECTIONS[config.direction]
    with bars() as progress:
        trials = tuple(progress.track(search(config, limit), config.trials, description="trials"))
    title = f"{config.formula} over {config.model}: {len(trials)} trials on {bare[0].count} prompts"
    return Outcome(title, config.attribute, better, limit, bare, trials)


def search(config: TuningConfig, limit: float) -> Iterator[Trial]:
    """Yield the trials of a tree-structured Parzen estimator (Bergstra et al., 2011).

    The first three trials are the middle, the low ends and the high ends of all ranges. `limit` is
    the highest perplexity allowed. A formula that cannot be measured is pruned. Equal seeds give
    equal trials, whatever the number of trials.
    """
    # optuna belongs to an extra, and only this function needs it.
    import optuna

    # By default optuna logs the start of each study.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=config.seed),
        direction="minimize" if config.direction == "down" else "maximize",
    )
    for where in ("middle", "low", "high"):
        study.enqueue_trial({r.name: getattr(r, where) for r in config.ranges})
    for number in range(config.trials):
        trial, text = study.ask(), config.formula
        suggested = [(r, trial.suggest_float(r.name, r.low, r.high)) for r in config.ranges]
        factors = {r.name: r.written(value) for r, value in suggested}
        try:
            text = filled(text, factors)
            attribute, perplexity = config.measure(text)
        except FormulaError as error:
            # An infinite violation keeps the sampler away from such formulas.
            trial.set_constraint("perplexity", math.inf)
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            yield Trial(number, factors, text, estimate([]), estimate([]), error.problem)
        else:
            trial.set_constraint("perplexity", perplexity.mean - limit)
            study.tell(trial, attribute.mean)
            yield Trial(number, factors, text, attribute, perplexity)


def highest(limit: str | float, bare: float) -> float:
    """Return the highest mean perplexity that `limit` allows. `bare` is the perplexity of `M`.

    `limit` is a number such as `4.5`, or a multiple of `bare` such as `1.2x`. Raises RequestError
    for any other text.
    """
    found = re.fullmatch(r"(\d*\.?\d+)(x?)", str(limit).strip())
    if found is None or float(found[1]) == 0:
        problem = "a limit is a perplexity such as 4.5, or a multiple of M's such as 1.2x"
        raise RequestError(f"{problem}, not {limit!r}")
    return float(found[1]) * (bare if found[2] else 1)
