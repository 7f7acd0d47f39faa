"""Draw the next token of plain texts, for all of them together.

A plain text draws one token a step from its whole formula. It has no drafts and no constraints, and
reports no log-probabilities. Most texts are plain, so a step does little for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from marith.decoding.evaluate import compose, evaluate
from marith.decoding.random_numbers import DRAW, uniform
from marith.decoding.sampling import drawn
from marith.engine.jobs.generation import Generation
from marith.engine.turn import Turn
from marith.errors import fault
from marith.formula.tree.terms import Prompted, Term
from marith.speculation.verify import count_plausible, warp_rows
from marith.tensor_rows import Row, gather, rows_of


class PlainTexts:
    """The next tokens of plain texts.

    `results` is a tensor [2, texts], which the device may still compute. The first row has the
    tokens. The second row has the numbers of terms that find the tokens plausible.
    """

    def __init__(self, turns: Sequence[Turn], checked: bool, text_later: bool) -> None:
        self._text_later = text_later
        self._jobs = [turn.job for turn in turns if isinstance(turn.job, Generation)]
        self._compared: list[Row] = []
        self._positions: list[int] = []
        rows = self._composed(turns, checked)
        draws = [job.draws for job in self._jobs]
        seeds, uses = [one.seed for one in draws], [one.use for one in draws]
        numbers = uniform(seeds, [job.window.final for job in self._jobs], uses)
        targets = gather(warp_rows(rows, [job.sampling for job in self._jobs]))
        tokens = drawn(targets.exp(), torch.from_numpy(numbers[:, DRAW]).to(targets.device))
        found = count_plausible(self._compared, self._positions, tokens)
        self.results = torch.stack((tokens, found)).double()

    @classmethod
    def of(cls, turns: Sequence[Turn], checked: bool, text_later: bool) -> list[PlainTexts]:
        """Return an empty list if there are no texts. The options are those of `step`."""
        return [cls(turns, checked, text_later)] if turns else []

    def _composed(self, turns: Sequence[Turn], checked: bool) -> list[Row]:
        """Return the composed row of each text. Texts of one formula are composed together."""
        groups: dict[int, list[int]] = defaultdict(list)
        for i, turn in enumerate(turns):
            # Equal plans are one object, and hashing a formula takes time.
            groups[id(turn.job.prepared.plan)].append(i)
        composed: dict[int, Row] = {}
        for members in groups.values():
            plan = turns[members[0]].job.prepared.plan
            rows = {term: [turns[i].answers[term].rows[0] for i in members] for term in plan.terms}
            if checked:
                turns[members[0]].job.prepared.lanes.require_numbers(rows)
            # A text is plausible to a formula of one term.
            prompted = [own for term, own in rows.items() if isinstance(term, Prompted)]
            if not isinstance(plan.whole, Term):
                # The rows of a text follow each other, so that they are a view of a pass.
                self._compared += [
                    row for of_text in zip(*prompted, strict=True) for row in of_text
                ]
                self._positions += [i for i in members for _ in prompted]
            gathered = {term: gather(own) for term, own in rows.items()}
            whole = (evaluate if checked else compose)(plan.whole, gathered)
            composed.update(zip(members, rows_of(whole), strict=True))
        for turn, job in zip(turns, self._jobs, strict=True):
            job.count(turn.answers)
            turn.answers = {}
        return [composed[i] for i in range(len(turns))]

    def accept(self, results: Sequence[Sequence[float]]) -> None:
        """Give each text its token. `results` are the numbers on the host."""
        for job, token, found in zip(self._jobs, *results, strict=True):
            try:
                job.take(int(token), found > 0, self._text_later)
            except BaseException as error:
                # The error of a text goes to its caller alone.
                job.fail(fault(error))


def is_plain(turn: Turn) -> bool:
    """Return True if the text of a job is plain."""
    return isinstance(turn.job, Generation) and turn.job.is_plain


def convert(turns: Sequence[Turn]) -> None:
    """Convert the tokens of plain texts that the last step has left to text."""
    for turn in turns:
        if isinstance(turn.job, Generation):
            try:
                turn.job.convert()
            except BaseException as error:
                turn.job.fail(fault(error))
