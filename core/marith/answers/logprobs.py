"""How likely each token of a text was, by the whole formula and by each of its terms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from torch import Tensor

from marith.decoding.constraints.matcher import Lexicon
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.request.completion import Alternative, TokenLogprob
from marith.speculation.window import Block
from marith.tensor_rows import Row, vector


class Likelihoods:
    """Keeps what was composed of each position until its token is final. For one thread.

    `count` is how many of the likeliest are told beside each token.
    """

    def __init__(self, count: int, lexicon: Lexicon) -> None:
        self._count = count
        self._lexicon = lexicon
        self._rows: dict[int, Tensor] = {}
        self._terms: dict[int, dict[Term, Tensor]] = {}

    def note(
        self,
        wholes: Collection[Formula | None],
        blocks: Sequence[Block],
        places: Sequence[int],
        composed: Sequence[Row],
    ) -> None:
        """Take in composed log-probabilities [vocab], where one of `wholes` was composed."""
        of_terms = [
            (block.formula, {term: rows[at] for term, rows in block.rows.items()})
            for block in blocks
            for at in range(block.count)
        ]
        for place, row, (formula, rows) in zip(places, composed, of_terms, strict=True):
            if formula in wholes:
                self._rows[place] = vector(row)
                self._terms[place] = {term: vector(one) for term, one in rows.items()}

    def of(self, place: int, token: int) -> TokenLogprob:
        """What is known of the token that stands at a place; forgotten once told."""
        row, said = self._rows.pop(place), self._terms.pop(place)
        likeliest = row.topk(min(self._count, len(row))).indices.tolist() if self._count else []
        chosen = self._alternative(token, row)
        return TokenLogprob(
            chosen.token,
            chosen.text,
            chosen.data,
            chosen.logprob,
            tuple(self._alternative(each, row) for each in likeliest),
            _by_text({t: float(one[token]) for t, one in said.items() if len(one) > 1}),
        )

    def _alternative(self, token: int, row: Tensor) -> Alternative:
        data = self._lexicon.data_of(token)
        return Alternative(token, data.decode(errors="replace"), data, float(row[token]))


def _by_text(values: Mapping[Term, float]) -> dict[str, float]:
    return {str(term): value for term, value in values.items()}
