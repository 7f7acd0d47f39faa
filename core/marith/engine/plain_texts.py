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
from marith.decoding.sampling import drawn, require_drawn
from marith.engine.jobs.generation import Generation
from marith.engine.turn import Turn
from marith.errors import fault
from marith.formula.tree.terms import Prompted, Term
from marith.speculation.verify import count_plausible, warp_rows
from marith.tensor_rows import Row, gather, on_device, rows_of


class PlainTexts:
    """The next tokens of plain texts.

    `results` is a tensor [2, texts], which the device may still compute. The first row has the
    tokens. The second row has the numbers of terms that find the tokens plausible. `checked` and
    `text_later` are as in `step`.
    """

    def __init__(self, turns: Sequence[Turn], checked: bool, text_later: bool) -> None:
        self._text_later = text_later
        self._jobs: list[Generation] = []
        for turn in turns:
            assert isinstance(turn.job, Generation), "only generated texts are plain"
            self._jobs.append(turn.job)
        self._compared: list[Row] = []
        self._positions: list[int] = []
        rows = self._composed(turns, checked)
        draws = [job.draws for job in self._jobs]
        seeds, uses = [one.seed for one in draws], [one.use for one in draws]
        numbers = uniform(seeds, [job.window.final for job in self._jobs], uses)
        targets = gather(warp_rows(rows, [job.sampling for job in self._jobs]))
        tokens = drawn(targets.exp(), on_device(numbers[:, DRAW], targets.device))
        found = count_plausible(self._compared, self._positions, tokens)
        self.results = torch.stack((tokens, found)).double()

    def require_drawn(self, results: Sequence[Sequence[float]]) -> None:
        """Raise FormulaError if a token was drawn from NaN, for a text that goes on."""
        pairs = zip(results[0], self._jobs, strict=True)
        require_drawn([token for token, job in pairs if not job.done])

    def accept(self, results: Sequence[Sequence[float]]) -> None:
        """Give each text its token. `results` are the numbers on the host."""
        for job, token, found in zip(self._jobs, *results, strict=True):
            try:
                job.take_plain(int(token), found > 0, self._text_later)
            except BaseException as error:
                # The error of a text goes to its caller alone.
                job.fail(fault(error))

    def _composed(self, turns: Sequence[Turn], checked: bool) -> list[Row]:
        """Return the composed row of each text. Texts of one formula are composed together."""
        groups: dict[int, list[int]] = defaultdict(list)
        for i, job in enumerate(self._jobs):
            # Equal plans are one object, and hashing a formula takes time.
            groups[id(job.prepared.plan)].append(i)
        composed: dict[int, Row] = {}
        for members in groups.values():
            prepared = self._jobs[members[0]].prepared
            plan = prepared.plan
            rows = {term: [turns[i].answers[term].rows[0] for i in members] for term in plan.terms}
            if checked:
                prepared.lanes.require_numbers(rows)
            prompted = [own for term, own in rows.items() if isinstance(term, Prompted)]
            # A text is plausible to a formula of one term.
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
