"""Which numbers of a formula move an attribute farthest while its texts stay fluent?"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from inspect_ai import Task

from marith.errors import RequestError
from marith.evals import scorers, suite, tasks
from marith.evals.evaluations import DIRECTIONS, FormulaEvaluation
from marith.evals.formulas import NamedFormula
from marith.evals.pocket_texts import BEGINNINGS, HOSTILE_MESSAGES, QUESTIONS
from marith.evals.statistics import Figure
from marith.evals.tuning.outcome import Outcome
from marith.evals.tuning.search import check, search
from marith.evals.tuning.unknowns import Range, check_names, filled
from marith.formula.meaning.binding import BARE, bind, parse, resolve
from marith.formula.text.term_data import Terms
from marith.request.checks import by, whole_from
from marith.showing import bars

DEFAULT_COUNT = 64


@dataclass(frozen=True, slots=True)
class Setting:
    """What a task is about: pocket's prompts of a kind, the text around them, and how texts end."""

    prompts: str
    frame: str
    stop: tuple[str, ...]
    max_tokens: int
    terms: str  # for `paper_terms`


SETTINGS = {
    "chat": Setting(QUESTIONS, tasks.MESSAGE, (), 64, "attributes"),
    "toxicity": Setting(HOSTILE_MESSAGES, tasks.CONVERSATION, ("\n", "Person 1:"), 32, "toxicity"),
    "sentiment": Setting(BEGINNINGS, tasks.MESSAGE, ("\n",), 64, "positive"),
}


@dataclass(frozen=True, slots=True)
class Bound:
    """The highest mean perplexity that is allowed: a number, or a multiple of that of `M`."""

    limit: float
    relative: bool

    @classmethod
    def read(cls, text: str) -> Bound:
        """Return the bound that `1.2x` or `4.5` means. Raises RequestError."""
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
        """Return the bound where `M` has the perplexity `bare`."""
        return self.limit * bare if self.relative else self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning(FormulaEvaluation):
    """Where `attribute` goes farthest in `direction` while perplexity under `M` keeps the bound.

    `formula` has unknowns, which are sought in `ranges` by `trials` assignments, all on the same
    prompts with the same seeds. `attribute` is a measure of `scorers.named`. `task` sets how
    prompts are framed and what names mean; `frame` and `stop` replace its own, and `terms` are
    added to its own. Raises FormulaError, ModelError or RequestError.
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
        super(Tuning, self).__post_init__()
        if self.task not in SETTINGS:
            raise RequestError(f"a task is one of {', '.join(SETTINGS)}, not {self.task!r}")
        if self.direction not in DIRECTIONS:
            raise RequestError(f"a direction is down or up, not {self.direction!r}")
        if self.formulas:
            raise RequestError(f"one formula is tuned at a time, and not {self.formulas!r}")
        check_names(self.formula, self.ranges, self.all_terms)
        middle = filled(self.formula, {unknown.name: unknown.middle for unknown in self.ranges})
        bind(parse(middle), resolve(self.all_terms))

    @property
    def all_terms(self) -> Terms:
        """The task's terms, and those that were given."""
        setting = SETTINGS[self.task]
        model = "pocket" if self.is_pocket else self.model
        return {**tasks.paper_terms(setting.terms, model), **self.terms}

    def make(self) -> Task:
        """Return the task in which each trial is measured."""
        setting = SETTINGS[self.task]
        rows = tasks.prompts(
            setting.prompts, self.data, self.column, self.where, self.n or DEFAULT_COUNT, self.seed
        )
        made = tasks.texts_task(
            "tuning",
            rows,
            {"attribute": scorers.named(self.attribute, self.device)},
            self.seed,
            self.frame or setting.frame,
            self.stop or setting.stop,
            self.max_tokens or setting.max_tokens,
            self.temperature,
        )
        if self.task == "sentiment":
            made.setup = tasks.beginning(tasks.BEGINNING)
        return made


def run(asked: Tuning) -> Outcome:
    """Seek the unknowns. The logs of every trial are kept in `out` as soon as they are there.

    The same search goes on where it was broken off, or with more trials: it is made again, and
    what it measured before is read. Raises FormulaError, ModelError or RequestError.
    """
    check()
    placed = {key: getattr(asked, key) for key in ("device", "dtype", "revision", "backend")}

    def measure(formula: str) -> tuple[Figure, Figure]:
        digest = hashlib.sha256(formula.encode()).hexdigest()[:16]
        out = asked.out and asked.out / digest
        line = NamedFormula(formula, formula)
        (row,) = suite.run(
            "", asked.make, [line], asked.all_terms, asked.model, asked.samples, out, **placed
        ).rows
        return row.figure("attribute"), row.figure("perplexity")

    bare = measure(BARE)
    most, better = asked.bound.over(bare[1].mean), DIRECTIONS[asked.direction]
    with bars() as progress:
        bar = progress.add_task("trials", total=asked.trials)
        trials = search(
            asked.formula,
            asked.ranges,
            better,
            most,
            asked.trials,
            asked.seed,
            measure,
            lambda _: progress.advance(bar),
        )
    title = f"{asked.formula} over {asked.model}: {len(trials)} trials on {bare[0].count} prompts"
    described: Mapping[str, object] = {"task": asked.task, "seed": asked.seed}
    return Outcome(title, asked.attribute, better, most, bare, tuple(trials), described)
