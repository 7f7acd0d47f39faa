"""Log-probabilities of a text's tokens: by the whole formula, and by each of its terms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from torch import Tensor

from marith.decoding.constraints.matcher import Lexicon
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.request.completion import Alternative, TokenLogprob
from marith.tensor_rows import Row, vector


class Positions(Protocol):
    """Positions at which one formula was composed, from a row [vocab] of each of its terms."""

    @property
    def formula(self) -> Formula:
        """The formula."""
        ...

    @property
    def rows(self) -> Mapping[Term, Sequence[Row]]:
        """The rows of each term, one a position."""
        ...

    @property
    def count(self) -> int:
        """How many positions."""
        ...


class LogprobRecorder:
    """Keeps what was composed at each position until its token is final. For one thread.

    `count` is how many of the likeliest tokens are returned beside each token.
    """

    def __init__(self, count: int, lexicon: Lexicon) -> None:
        self._count = count
        self._lexicon = lexicon
        self._rows: dict[int, Tensor] = {}
        self._terms: dict[int, dict[Term, Tensor]] = {}

    def record(
        self,
        wholes: Collection[Formula | None],
        blocks: Sequence[Positions],
        places: Sequence[int],
        composed: Sequence[Row],
    ) -> None:
        """Keep the rows of the places where one of `wholes` was composed; others are drafts'."""
        positions = [(block, at) for block in blocks for at in range(block.count)]
        for place, row, (block, at) in zip(places, composed, positions, strict=True):
            if block.formula in wholes:
                self._rows[place] = vector(row)
                self._terms[place] = {term: vector(rows[at]) for term, rows in block.rows.items()}

    def pop(self, place: int, token: int) -> TokenLogprob:
        """The log-probabilities of the final token at a place, which are not kept any longer."""
        row, rows = self._rows.pop(place), self._terms.pop(place)
        likeliest = row.topk(min(self._count, len(row))).indices.tolist() if self._count else []
        chosen = self._alternative(token, row)
        return TokenLogprob(
            chosen.token,
            chosen.text,
            chosen.data,
            chosen.logprob,
            tuple(self._alternative(each, row) for each in likeliest),
            {str(term): float(rows[term][token]) for term in rows if len(rows[term]) > 1},
        )

    def _alternative(self, token: int, row: Tensor) -> Alternative:
        data = self._lexicon.data_of(token)
        return Alternative(token, data.decode(errors="replace"), data, float(row[token]))
