"""A run of `marith eval speed`: its sections, over one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from rich.progress import Progress

from marith.engine.engine import Engine
from marith.evals.reporting.progress import timed_progress
from marith.evals.speed.benchmark_results import Machine
from marith.evals.speed.rounds import interleave
from marith.evals.speed.speculation import (
    compared_setups,
    factor_curve,
    paper_table,
    speed_questions,
)
from marith.evals.speed.speculation.drafting_setups import (
    DraftingSetup,
    Tally,
    plan_label,
    variant,
)
from marith.evals.speed.speculation.savings_report import Savings, SavingsLine, lines
from marith.evals.speed.speculation.speed_sizes import POCKET, SavingsSettings, Size
from marith.formula.text.term_data import Terms
from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.placing import Placement

_LONGEST_NAME = 62


class SavingsRun:
    """A run of some sections. Keeps state: what was measured so far, and the progress bars."""

    def __init__(self, settings: SavingsSettings, terms: Terms, progress: Progress) -> None:
        self.settings = settings
        self.terms = terms
        self.lines: list[SavingsLine] = []
        self.points: list[factor_curve.FactorPoint] = []
        self._progress = progress

    def table(self, engine: Engine) -> None:
        """The paper's table, its formulas in turn."""
        size = self.settings.size("table")
        announce = self._bar(
            "table", sum(4 if row.weights else 3 for row in paper_table.ROWS), size
        )
        for row in paper_table.ROWS:
            measured = self._against(
                "table",
                row.formula(),
                list(paper_table.setups(row, engine, self.terms)),
                engine,
                announce,
            )
            for line, calls, ms in zip(measured, row.calls, row.milliseconds, strict=False):
                place = self.lines.index(line)
                self.lines[place] = replace(line, paper_calls=calls, paper_milliseconds=ms)

    def curve(self, engine: Engine) -> None:
        """The paper's figure, one system prompt after another."""
        size = self.settings.size("lambda")
        count = len(speed_questions.SYSTEM_PROMPTS) * len(factor_curve.FACTORS)
        announce = self._bar("lambda", count, Size(size.prompts, 0))
        self.points += factor_curve.points(engine, self.terms, size, self.settings.tokens, announce)

    def auto(self, engine: Engine) -> None:
        """What "auto" chooses against no drafts."""
        pairs = compared_setups.against_none(self.terms, self.settings.model == POCKET)
        announce = self._bar("auto", 2 * len(pairs), self.settings.size("auto"))
        for name, pair in pairs.items():
            self._against("auto", name, pair, engine, announce)

    def _against(
        self,
        section: str,
        formula: str,
        setups: Sequence[DraftingSetup],
        engine: Engine,
        announce: Callable[[str], None],
    ) -> list[SavingsLine]:
        """Measure setups against one another, on other prompts each round."""
        size, tokens = self.settings.size(section), self.settings.tokens
        tallies = {setup.name: Tally() for setup in setups}
        plans = {setup.name: plan_label(setup.speculation, setup.terms) for setup in setups}

        def prompts(turn: int) -> Sequence[str]:
            return speed_questions.questions(size.prompts, turn)

        variants = [
            variant(engine, setup, prompts, tokens, tallies[setup.name]) for setup in setups
        ]
        samples = interleave(
            variants, size.rounds, lambda name: announce(f"{formula[:40]} · {name}")
        )
        measured = lines(section, formula, samples, tallies, plans)
        self.lines += measured
        return measured

    def _bar(self, section: str, count: int, size: Size) -> Callable[[str], None]:
        bar = self._progress.add_task(section, total=count * (size.rounds + 1))

        def announce(what: str) -> None:
            description = f"{section}: {what}"[:_LONGEST_NAME].ljust(_LONGEST_NAME)
            self._progress.update(bar, description=description, advance=1)

        return announce


def run(settings: SavingsSettings) -> Savings:
    """Measure every section that is asked for. Shows progress on standard error.

    Raises ModelError for a model that cannot be had or that a draft does not fit.
    """
    with ExitStack() as stack:
        progress = stack.enter_context(timed_progress(20))
        savings_run = SavingsRun(settings, speed_questions.terms(), progress)
        with Engine.load(settings.model) as engine:
            for section, measure in (
                ("table", savings_run.table),
                ("lambda", savings_run.curve),
                ("auto", savings_run.auto),
            ):
                if section in settings.sections:
                    measure(engine)
    return Savings(
        settings.model,
        _parameters(settings.model),
        settings.tokens,
        Machine.here(),
        tuple(savings_run.lines),
        tuple(savings_run.points),
    )


def _parameters(model: str) -> int:
    loaded, _ = loader.as_stored(model, Placement())
    return int(loaded.num_parameters())
