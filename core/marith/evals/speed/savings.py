"""Run `marith eval speed`: measure the paper's table and its figure on one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median

import torch
from rich.progress import Progress

from marith import Completion, Engine, RequestError, Sampling, Stop
from marith.console import bars
from marith.evals.speed import setups
from marith.evals.speed.savings_report import Savings, SavingsLine
from marith.evals.speed.setups import Setup, plan_label, questions
from marith.models import locate
from marith.request.checks import check_fields, checked_by, whole_from

SECTIONS = ("table", "lambda")
FACTORS = tuple(round(0.1 * i, 1) for i in range(1, 11))

# The warm-up round generates this many texts, and they are not counted.
_WARMING = 2


@dataclass(frozen=True, slots=True)
class SavingsConfig:
    """The settings of a run: `prompts` texts of up to `tokens` tokens for each setup and round."""

    model: str = "pocket"
    sections: Sequence[str] = SECTIONS
    prompts: int = field(default=12, metadata=checked_by(whole_from(1, 10_000)))
    tokens: int = field(default=64, metadata=checked_by(whole_from(2, 512)))
    rounds: int = field(default=2, metadata=checked_by(whole_from(1, 10_000)))

    def __post_init__(self) -> None:
        check_fields(self)
        for section in self.sections:
            if section not in SECTIONS:
                raise RequestError(f"a section is one of {', '.join(SECTIONS)}, not {section!r}")
        locate(self.model)


def drawn(text: Completion) -> int:
    """Return the number of sampled tokens of a text, with the token that ended it."""
    # A token that ends a text is sampled too, but is not one of the text's tokens.
    return len(text.tokens) + (text.finish_reason == "stop")


def per_token(texts: Sequence[Completion]) -> tuple[float, float, float | None, float | None]:
    """Return calls per token, passes per token, and the predicted and accepted shares of drafts.

    The shares count drafted tokens that were checked. They are None if no token was checked.
    """
    tokens = sum(map(drawn, texts))
    stages = [stage for text in texts for stage in text.stats.stages]
    checked = sum(stage.evaluated for stage in stages) or None
    return (
        sum(text.stats.calls for text in texts) / tokens,
        sum(text.stats.passes for text in texts) / tokens,
        checked and sum(stage.predicted * stage.evaluated for stage in stages) / checked,
        checked and sum(stage.accepted for stage in stages) / checked,
    )


def run(config: SavingsConfig) -> Savings:
    """Measure the chosen sections, and show progress on standard error.

    Raises ModelError if the model cannot be loaded, or if the text of an n-gram has a token that
    the model does not have.
    """
    with bars(everywhere=True) as progress, Engine.load(config.model) as engine:
        savings_run = _SavingsRun(config, engine, progress)
        lines = [
            *(savings_run.table() if "table" in config.sections else ()),
            *(savings_run.curve() if "lambda" in config.sections else ()),
        ]
        return Savings(config.model, torch.get_num_threads(), config.tokens, tuple(lines))


class _SavingsRun:
    """The sections of a run on one engine."""

    def __init__(self, config: SavingsConfig, engine: Engine, progress: Progress) -> None:
        self._config = config
        self._engine = engine
        self._progress = progress
        self._terms = setups.named_terms()

    def table(self) -> list[SavingsLine]:
        """Measure the paper's table, one formula after another."""
        # Each formula has three setups, and each setup has a warm-up round.
        advance = self._bar("table", 3 * len(setups.ROWS) * (self._config.rounds + 1))
        lines: list[SavingsLine] = []
        for row in setups.ROWS:
            compared = list(setups.table_setups(row, self._engine, self._terms))
            plain, drafted, *others = self._in_turn(compared, row.formula(), advance)
            for line, calls, ms in zip((plain, drafted), row.calls, row.milliseconds, strict=True):
                lines.append(replace(line, paper_calls=calls, paper_milliseconds=ms))
            lines += others
        return lines

    def curve(self) -> list[SavingsLine]:
        """Measure the paper's figure: M + λ·prompt for each system prompt and each λ."""
        advance = self._bar("lambda", len(setups.SYSTEM_PROMPTS) * len(FACTORS))
        lines = []
        for name in setups.SYSTEM_PROMPTS:
            for factor in FACTORS:
                formula = f"M + {factor}*{name}"
                advance(formula)
                plan = setups.calibrated(self._engine, formula, self._terms, self._config.prompts)
                setup = Setup(name, formula, self._terms, plan)
                texts = self._round(setup, self._config.prompts, turn=1)
                lines.append(_line("lambda", formula, setup, [texts], factor=factor))
        return lines

    def _in_turn(
        self, compared: Sequence[Setup], formula: str, advance: Callable[[str], None]
    ) -> list[SavingsLine]:
        """Measure setups in turn, after a warm-up round."""
        # If the setups take turns, a slow phase of the machine slows all of them alike.
        prompts = self._config.prompts
        taken: dict[str, list[list[Completion]]] = {setup.name: [] for setup in compared}
        for turn in range(self._config.rounds + 1):
            for i in range(len(compared)):
                setup = compared[(turn + i) % len(compared)]
                advance(f"{formula}, {setup.name}")
                texts = self._round(setup, prompts if turn else min(_WARMING, prompts), turn)
                if turn:
                    taken[setup.name].append(texts)
        lines = [_line("table", formula, setup, taken[setup.name]) for setup in compared]
        return [replace(one, ratio=one.milliseconds / lines[0].milliseconds) for one in lines]

    def _round(self, setup: Setup, prompts: int, turn: int) -> list[Completion]:
        """Generate the texts of a round one after another, as in the paper."""
        stop = Stop(self._config.tokens)
        return [
            self._engine.generate(
                text, setup.formula, setup.terms, Sampling(seed=seed), stop, setup.speculation
            )
            for seed, text in enumerate(questions(prompts, turn), turn * prompts)
        ]

    def _bar(self, section: str, total: int) -> Callable[[str], None]:
        """Return a function that advances the bar by one and shows its argument beside it."""
        bar = self._progress.add_task(section, total=total)
        return lambda what: self._progress.update(bar, description=what, advance=1)


def _line(
    section: str,
    formula: str,
    setup: Setup,
    rounds: Sequence[Sequence[Completion]],
    factor: float | None = None,
) -> SavingsLine:
    """Return the costs of a setup's texts. The milliseconds include reading the prompts."""
    times = [
        1e3 * sum(text.stats.seconds for text in texts) / sum(map(drawn, texts)) for texts in rounds
    ]
    costs = per_token([*chain.from_iterable(rounds)])
    plan = plan_label(setup.speculation, setup.terms)
    return SavingsLine(section, formula, setup.name, factor, median(times), *costs, plan)
