"""Compose and verify the positions of texts with drafts or constraints, and of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from torch import Tensor

from marith.decoding.blocks import Block
from marith.decoding.evaluate import compose, evaluate
from marith.decoding.sampling import require_drawn
from marith.engine.jobs.job import Job
from marith.engine.turn import Turn
from marith.errors import fault
from marith.formula.tree.nodes import Formula
from marith.speculation.verify import Check, Verification
from marith.tensor_rows import gather, rows_of


class VerifiedTexts:
    """The checks of these texts, which are verified together.

    `results` is a tensor [3, positions], whose first row has the tokens. It may still be computed
    by the device.
    """

    def __init__(self, checks: Sequence[tuple[Job, Check]]) -> None:
        self._jobs = [job for job, _ in checks]
        self._verification = Verification([check for _, check in checks])
        self.results: Tensor = self._verification.results

    def require_drawn(self, results: Sequence[list[float]]) -> None:
        """Raise FormulaError if a token was drawn from NaN."""
        require_drawn(results[0])

    def accept(self, results: Sequence[list[float]]) -> None:
        """Give each text its verdict. `results` are the numbers on the host."""
        verdicts = self._verification.verdicts(results)
        for job, verdict in zip(self._jobs, verdicts, strict=True):
            try:
                job.accept(verdict)
            except BaseException as error:
                # The error of a text goes to its caller alone.
                job.fail(fault(error))


def compose_all(turns: Sequence[Turn], checked: bool) -> list[tuple[Job, Check]]:
    """Return the check of each job. Positions with the same formula are composed together.

    A position at which a term is NaN, or no token is allowed, is composed to NaN. With `checked`,
    an error is raised instead.
    """
    received = []
    for turn in turns:
        block = turn.job.receive(turn.answers)
        turn.answers = {}
        if block is not None:
            received.append((turn.job, block))
            if checked:
                turn.job.prepared.lanes.require_numbers(block.rows)
    together: dict[Formula, list[Block]] = defaultdict(list)
    for _, block in received:
        together[block.formula].append(block)
    compose_rows = evaluate if checked else compose
    for formula, blocks in together.items():
        # A term that was evaluated for another formula may be NaN too, and its keys must not stay.
        terms = set.intersection(*(set(block.rows) for block in blocks))
        rows = {
            term: gather([row for block in blocks for row in block.rows[term]])
            for term in blocks[0].rows
            if term in terms
        }
        results = iter(rows_of(compose_rows(formula, rows)))
        for block in blocks:
            block.composed = [*islice(results, block.count)]
    checks = []
    for job, block in received:
        check = job.check(block.composed)
        if check is not None:
            checks.append((job, check))
    return checks
