"""Report the log-probabilities of a text's tokens under the whole formula and each term."""

from __future__ import annotations

from torch import Tensor

from marith.decoding.blocks import ComposedRow
from marith.decoding.matcher import Lexicon
from marith.request.completion import TokenLogprob, TopLogprob
from marith.tensor_rows import vector


def token_logprob(token: int, composed: ComposedRow, top: int, lexicon: Lexicon) -> TokenLogprob:
    """Return the log-probabilities of a final token, and of the `top` likeliest tokens there."""
    row = vector(composed.row)
    likeliest = row.topk(min(top, len(row))).indices.tolist() if top else []
    chosen = _top_logprob(token, row, lexicon)
    by_term = {term: vector(own) for term, own in composed.rows.items()}
    return TokenLogprob(
        chosen.token,
        chosen.text,
        chosen.data,
        chosen.logprob,
        tuple(_top_logprob(other, row, lexicon) for other in likeliest),
        {
            str(term): float(logprobs[token])
            for term, logprobs in by_term.items()
            # The row of an observation has one number, which is no log-probability.
            if len(logprobs) > 1
        },
    )


def _top_logprob(token: int, row: Tensor, lexicon: Lexicon) -> TopLogprob:
    data = lexicon.data_of(token)
    return TopLogprob(token, data.decode(errors="replace"), data, float(row[token]))
