"""What is sought: a formula's unknowns, the attribute that they are to move, and a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from marith.errors import RequestError
from marith.evals.experiment.evaluation_settings import GenerationSettings, check_frame
from marith.evals.metrics.metric import DIRECTIONS, Metric
from marith.evals.metrics.named_metrics import parse_metric
from marith.evals.tuning.tasks import TASKS, TuningTask
from marith.evals.tuning.unknowns import Range, check_names, filled
from marith.formula.meaning.binding import bind, parse, resolve
from marith.formula.text.term_data import Terms
from marith.request.checks import by, whole_from

DEFAULT_COUNT = 64


@dataclass(frozen=True, slots=True)
class Bound:
    """The highest mean perplexity that is allowed: a number, or so many times that of `M`."""

    limit: float
    relative: bool

    @classmethod
    def read(cls, text: str) -> Bound:
        """`1.2x` or `4.5`. Raises RequestError for what is none."""
        relative = text.strip().endswith("x")
        try:
            limit = float(text.strip().removesuffix("x"))
        except ValueError:
            limit = math.nan
        if not 0 < limit < math.inf:
            problem = "a bound is a perplexity, or a multiple of that of M such as 1.2x"
            raise RequestError(f"{problem}, not {text!r}")
        return cls(limit, relative)

    def over(self, bare: float) -> float:
        """The bound, where `M` has the perplexity `bare`."""
        return self.limit * bare if self.relative else self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSettings(GenerationSettings):
    """Where `attribute` goes farthest in `direction` while perplexity under `M` keeps the bound.

    `formula` has unknowns, which are sought in `ranges` by so many `trials`, all on the same
    prompts with the same seeds. An attribute is MODEL:LABEL, a classifier's label, or vader:TONE.
    `task` sets how prompts are framed and what names mean; `frame` and `stop` replace its own, and
    `terms` are added to its own. Raises FormulaError, ModelError or RequestError.
    """

    formula: str
    ranges: tuple[Range, ...]
    attribute: str
    direction: str
    bound: Bound = Bound(1.2, relative=True)
    trials: int = field(default=30, metadata=by(whole_from(1, 100_000)))
    task: str = "chat"
    frame: str | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super(TuningSettings, self).__post_init__()
        if self.task not in TASKS:
            raise RequestError(f"a task is one of {', '.join(TASKS)}, not {self.task!r}")
        if self.direction not in DIRECTIONS:
            raise RequestError(f"a direction is down or up, not {self.direction!r}")
        if self.formulas:
            raise RequestError(f"one formula is tuned at a time, and not {self.formulas!r}")
        check_frame(self.frame)
        _ = self.measure
        check_names(self.formula, self.ranges, self.all_terms)
        middle = filled(self.formula, {unknown.name: unknown.middle for unknown in self.ranges})
        bind(parse(middle), resolve(self.all_terms))

    @property
    def tuning_task(self) -> TuningTask:
        """The task by that name."""
        return TASKS[self.task]

    @property
    def all_terms(self) -> Terms:
        """All terms: the task's, pocket's classifiers, and those that were given."""
        return {
            **self.tuning_task.terms,
            **(self.tuning_task.classifiers if self.is_pocket else {}),
            **self.terms,
        }

    @property
    def measure(self) -> Metric:
        """What the attribute is measured by."""
        better = DIRECTIONS[self.direction]
        return parse_metric("attribute", self.attribute, better, self.device)

    def described(self) -> dict[str, Any]:
        """What a search is compared by before it goes on; more trials may be asked for."""
        return {
            "formula": self.formula,
            "ranges": {unknown.name: [unknown.low, unknown.high] for unknown in self.ranges},
            "bound": [self.bound.limit, "times M" if self.bound.relative else "absolute"],
        }
