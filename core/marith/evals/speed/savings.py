"""A run of `marith eval speed`: its sections, over one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from time import perf_counter

import torch
from rich.progress import Progress

from marith.engine.engine import Engine
from marith.evals.reporting.evaluation_report import check_sections
from marith.evals.reporting.progress import timed_progress
from marith.evals.speed import setups
from marith.evals.speed.savings_report import FactorPoint, Savings, SavingsLine
from marith.evals.speed.setups import Setup, plan_label, questions
from marith.request.checks import by, hold, optional, whole_from
from marith.request.completion import Stats
from marith.request.request import Request
from marith.request.sampling import Sampling
from marith.request.stop import Stop
from marith.scoring.checkpoints.locate import locate

SECTIONS = ("table", "lambda", "auto")
SIZES = {"table": (12, 2), "lambda": (8, 1), "auto": (6, 5)}  # texts a round, and rounds
POCKET = "pocket"
FACTORS = tuple(round(0.1 * i, 1) for i in range(1, 11))

_COUNT = optional(whole_from(1, 10_000))
_WARMING = 2  # texts of the round that does not count; "auto" learns from all of them
_LONGEST_NAME = 62


@dataclass(frozen=True, slots=True)
class SavingsSettings:
    """A run: texts of up to `tokens` tokens; without `prompts` or `rounds`, each section its own.

    Raises ModelError or RequestError.
    """

    model: str = POCKET
    sections: Sequence[str] = SECTIONS
    prompts: int | None = field(default=None, metadata=by(_COUNT))
    tokens: int = field(default=64, metadata=by(whole_from(2, 512)))
    rounds: int | None = field(default=None, metadata=by(_COUNT))

    def __post_init__(self) -> None:
        hold(self)
        check_sections(self.sections, SECTIONS)
        locate(self.model)

    def size(self, section: str) -> tuple[int, int]:
        """Return how many texts a section has in a round, and its rounds."""
        prompts, rounds = SIZES[section]
        return self.prompts or prompts, self.rounds or rounds


@dataclass(frozen=True, slots=True)
class TimedText:
    """What a text cost. The token that ends it is one of those `drawn`."""

    drawn: int
    seconds: float
    stats: Stats


def per_token(texts: Sequence[TimedText]) -> tuple[float, float, float | None, float | None]:
    """Return calls and passes, and of the checked drafts the shares predicted and accepted."""
    drawn = sum(text.drawn for text in texts)
    stages = [stage for text in texts for stage in text.stats.stages]
    checked = sum(stage.evaluated for stage in stages) or None
    return (
        sum(text.stats.calls for text in texts) / drawn,
        sum(text.stats.passes for text in texts) / drawn,
        checked and sum(stage.predicted * stage.evaluated for stage in stages) / checked,
        checked and sum(stage.stood for stage in stages) / checked,
    )


def run(settings: SavingsSettings) -> Savings:
    """Measure every section that is asked for. Shows progress on standard error.

    Raises ModelError for a model that cannot be had or that a draft does not fit.
    """
    with timed_progress(20) as progress, Engine.load(settings.model) as engine:
        savings_run = _SavingsRun(settings, engine, progress)
        return Savings(
            settings.model,
            torch.get_num_threads(),
            settings.tokens,
            (
                *(savings_run.table() if "table" in settings.sections else ()),
                *(savings_run.auto() if "auto" in settings.sections else ()),
            ),
            tuple(savings_run.curve() if "lambda" in settings.sections else ()),
        )


class _SavingsRun:
    """The sections of a run, over one engine."""

    def __init__(self, settings: SavingsSettings, engine: Engine, progress: Progress) -> None:
        self._settings = settings
        self._engine = engine
        self._progress = progress
        self._terms = setups.named_terms()

    def table(self) -> list[SavingsLine]:
        """Measure the paper's table, one formula after another."""
        count = sum(4 if row.weights else 3 for row in setups.ROWS)
        advance = self._bar("table", count * (self._settings.size("table")[1] + 1))
        lines: list[SavingsLine] = []
        for row in setups.ROWS:
            compared = list(setups.table_setups(row, self._engine, self._terms))
            plain, drafted, *others = self._lines("table", row.formula(), compared, advance)
            for line, calls, ms in zip((plain, drafted), row.calls, row.milliseconds, strict=True):
                lines.append(replace(line, paper_calls=calls, paper_milliseconds=ms))
            lines += others
        return lines

    def auto(self) -> list[SavingsLine]:
        """Measure what "auto" chooses beside no drafts."""
        pairs = setups.auto_setups(self._terms, self._settings.model == POCKET)
        advance = self._bar("auto", 2 * len(pairs) * (self._settings.size("auto")[1] + 1))
        return [
            line
            for name, pair in pairs.items()
            for line in self._lines("auto", name, pair, advance)
        ]

    def curve(self) -> list[FactorPoint]:
        """Measure the paper's figure: M + λ·M_a, each system prompt at every λ."""
        prompts, rounds = self._settings.size("lambda")
        advance = self._bar("lambda", len(setups.SYSTEM_PROMPTS) * len(FACTORS))
        points = []
        for name in setups.SYSTEM_PROMPTS:
            for factor in FACTORS:
                formula = f"M + {factor}*{name}"
                advance(formula)
                plan = setups.calibrated(self._engine, formula, self._terms, prompts)
                setup = Setup(formula, formula, self._terms, plan)
                texts = [t for turn in range(rounds) for t in self._round(setup, prompts, turn + 1)]
                label = plan_label(plan, self._terms)
                points.append(FactorPoint(name, factor, *per_token(texts), label))
        return points

    def _lines(
        self,
        section: str,
        formula: str,
        compared: Sequence[Setup],
        advance: Callable[[str], None],
    ) -> list[SavingsLine]:
        """Measure setups in turn: what is slow for one is slow for all. Round 0 warms up."""
        prompts, rounds = self._settings.size(section)
        taken: dict[str, list[list[TimedText]]] = {setup.name: [] for setup in compared}
        for turn in range(rounds + 1):
            for i in range(len(compared)):
                setup = compared[(turn + i) % len(compared)]
                advance(f"{formula[:40]} · {setup.name}")
                texts = self._round(setup, prompts, turn)
                if turn:
                    taken[setup.name].append(texts)
        times = {name: tuple(map(_milliseconds, texts)) for name, texts in taken.items()}
        first = median(times[compared[0].name])
        return [
            SavingsLine(
                section,
                formula,
                setup.name,
                middle := median(times[setup.name]),
                middle / first,
                times[setup.name],
                *per_token([*chain.from_iterable(taken[setup.name])]),
                plan_label(setup.speculation, setup.terms),
            )
            for setup in compared
        ]

    def _round(self, setup: Setup, prompts: int, turn: int) -> list[TimedText]:
        """Ask the questions of a round one after another, as the paper's requests come too."""
        few = not turn and setup.speculation != "auto"
        asked = questions(prompts, turn)[: _WARMING if few else prompts]
        return [self._text(setup, text, turn * prompts + i) for i, text in enumerate(asked)]

    def _text(self, setup: Setup, prompt: str, seed: int) -> TimedText:
        sampling = Sampling(setup.temperature, seed=seed if setup.seeded else None)
        stop = Stop(self._settings.tokens)
        request = Request(prompt, setup.formula, setup.terms, sampling, stop, setup.speculation)
        begun = perf_counter()
        completion = self._engine.submit(request).result()
        seconds = perf_counter() - begun
        drawn = len(completion.tokens) + (completion.finish_reason == "stop")
        return TimedText(drawn, seconds, completion.stats)

    def _bar(self, section: str, total: int) -> Callable[[str], None]:
        """Return a function that shows what is measured now, and goes on by one."""
        bar = self._progress.add_task(section, total=total)

        def advance(what: str) -> None:
            description = f"{section}: {what}"[:_LONGEST_NAME].ljust(_LONGEST_NAME)
            self._progress.update(bar, description=description, advance=1)

        return advance


def _milliseconds(texts: Sequence[TimedText]) -> float:
    """Return milliseconds a token, over whole texts with their prompts."""
    return 1e3 * sum(text.seconds for text in texts) / sum(text.drawn for text in texts)
