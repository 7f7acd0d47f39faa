"""A run of `marith eval speed`: sections over one engine, the large model over its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import fmean

from rich.progress import Progress

from marith.engine.engine import Engine
from marith.evals.reporting.progress import timed_progress
from marith.evals.speed.benchmark_results import Machine
from marith.evals.speed.rounds import Variant, interleave
from marith.evals.speed.speculation import (
    compared_setups,
    factor_curve,
    one_model,
    paper_table,
    speed_questions,
)
from marith.evals.speed.speculation.drafting_setups import (
    DraftingSetup,
    Prompt,
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
        self.large: int | None = None
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

    def against_one_model(self) -> None:
        """The large model: plain questions, and questions whose answers quote a passage."""
        size, tokens = self.settings.size("large"), self.settings.tokens
        announce = self._bar("large", 6, size)
        model, tokenizer = one_model.large_model()
        self.large = model.num_parameters()
        plain, quoting = (
            compared_setups.against_one_model(self.terms, quotes) for quotes in (False, True)
        )
        with Engine.load(POCKET) as small:
            quoted = speed_questions.quotations(
                small, size.prompts, quoting[0].formula, quoting[0].terms, tokens
            )
        questions = speed_questions.questions(size.prompts, speed_questions.BLOCK_OF_LARGE)
        with Engine.load(model, tokenizer=tokenizer) as engine:
            baseline = one_model.baseline(model, tokenizer, questions, tokens)
            self._against("large", "four terms", plain, engine, announce, questions, baseline)
            prompts = [quotation.messages for quotation in quoted]
            baseline = one_model.baseline(model, tokenizer, quoted, tokens)
            copied = fmean(quotation.copied for quotation in quoted)
            name = f"four terms that quote {copied:.0f} tokens"
            self._against("large", name, quoting, engine, announce, prompts, baseline)

    def _against(
        self,
        section: str,
        formula: str,
        setups: Sequence[DraftingSetup],
        engine: Engine,
        announce: Callable[[str], None],
        same_prompts: Sequence[Prompt] | None = None,
        baseline: Variant | None = None,
    ) -> list[SavingsLine]:
        """Measure setups against one another, on these prompts or on others each round."""
        size, tokens = self.settings.size(section), self.settings.tokens
        tallies = {setup.name: Tally() for setup in setups}
        plans = {setup.name: plan_label(setup.speculation, setup.terms) for setup in setups}

        def prompts(turn: int) -> Sequence[Prompt]:
            return same_prompts or speed_questions.questions(size.prompts, turn)

        variants = [
            variant(engine, setup, prompts, tokens, tallies[setup.name]) for setup in setups
        ]
        if baseline is not None:
            variants.insert(0, baseline)
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
        gc.collect()
        if "large" in settings.sections:
            savings_run.against_one_model()
    return Savings(
        settings.model,
        _parameters(settings.model),
        settings.tokens,
        Machine.here(),
        tuple(savings_run.lines),
        tuple(savings_run.points),
        savings_run.large,
    )


def _parameters(model: str) -> int:
    loaded, _ = loader.as_stored(model, Placement())
    return int(loaded.num_parameters())
