"""How likely each token of a text was, by the whole formula and by each of its terms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from torch import Tensor

from marith.decoding.constraints.matcher import Lexicon
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.request.completion import Alternative, TokenLogprob
from marith.speculation.window import Block


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
        logprobs: Tensor,
    ) -> None:
        """Take in composed log-probabilities [positions, vocab], where one of `wholes` spoke."""
        spoken = [
            (block.formula, {term: rows[i] for term, rows in block.logprobs.items()})
            for block in blocks
            for i in range(len(next(iter(block.logprobs.values()))))
        ]
        for place, row, (part, said) in zip(places, logprobs, spoken, strict=True):
            if part in wholes:
                self._rows[place], self._terms[place] = row, said

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
