"""Record the log-probabilities of a text's tokens, of the whole formula and of each term."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor

from marith.decoding.blocks import Block
from marith.decoding.matcher import Lexicon
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.request.completion import Alternative, TokenLogprob
from marith.tensor_rows import Row, vector


class LogprobRecorder:
    """Keeps the rows of each position until its token is final. For one thread.

    `count` is the number of likeliest tokens that are returned with each token.
    """

    def __init__(self, count: int, lexicon: Lexicon) -> None:
        self._count = count
        self._lexicon = lexicon
        self._rows: dict[int, Tensor] = {}
        self._terms: dict[int, dict[Term, Tensor]] = {}

    def record(
        self,
        wholes: Collection[Formula | None],
        blocks: Sequence[Block],
        places: Sequence[int],
        composed: Sequence[Row],
    ) -> None:
        """Keep the rows of the places where one of `wholes` was composed, instead of a draft."""
        positions = [(block, at) for block in blocks for at in range(block.count)]
        for place, row, (block, at) in zip(places, composed, positions, strict=True):
            if block.formula in wholes:
                self._rows[place] = vector(row)
                self._terms[place] = {term: vector(rows[at]) for term, rows in block.rows.items()}

    def pop(self, place: int, token: int) -> TokenLogprob:
        """Return the log-probabilities of the final token at a place, and drop its rows."""
        row, by_term = self._rows.pop(place), self._terms.pop(place)
        likeliest = row.topk(min(self._count, len(row))).indices.tolist() if self._count else []
        chosen = self._alternative(token, row)
        return TokenLogprob(
            chosen.token,
            chosen.text,
            chosen.data,
            chosen.logprob,
            tuple(self._alternative(other, row) for other in likeliest),
            {
                str(term): float(logprobs[token])
                for term, logprobs in by_term.items()
                if len(logprobs) > 1
            },
        )

    def _alternative(self, token: int, row: Tensor) -> Alternative:
        data = self._lexicon.data_of(token)
        return Alternative(token, data.decode(errors="replace"), data, float(row[token]))
