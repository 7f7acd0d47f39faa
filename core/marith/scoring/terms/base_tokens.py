"""Answers of a model over the base model's tokens, if their vocabularies nearly agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from marith.scoring.passes.questions import Answer, RequestLane
from marith.scoring.prompting.shared_tokens import SharedTokens
from marith.tensor_rows import Row, mask_of


class BaseTokens:
    """Converts the questions and the answers of a model that shares most of the base's tokens.

    Keeps state: the tokens of each lane as the model reads them.
    """

    def __init__(self, shared: SharedTokens, device: torch.device) -> None:
        self.shared = shared
        self._lacking = mask_of(shared.lacking, shared.base.size, device)
        self._not_an_end = ~mask_of(shared.own_ends, shared.own.size, device)
        self._read: WeakKeyDictionary[RequestLane, tuple[Sequence[int], list[int]]]
        self._read = WeakKeyDictionary()

    def read(self, lane: RequestLane, continuation: Sequence[int]) -> Sequence[int]:
        """Return a continuation as the model reads it.

        Like the continuation, the result is the same object as before if it has only grown.
        """
        if self.shared.base.size <= self.shared.own.width:
            return continuation
        before, own = self._read.get(lane, (None, []))
        if before is not continuation:
            own = []
        own += self.shared.read(continuation[len(own) :])
        self._read[lane] = continuation, own
        return own

    def convert(self, answers: Iterable[Answer | None]) -> None:
        """Convert the rows of answers to rows over the base model's tokens."""
        # Answers of one pass are rows of one tensor.
        converted: dict[int, Tensor] = {}

        def changed(rows: Sequence[Row]) -> list[Row]:
            for tensor, _ in rows:
                if id(tensor) not in converted:
                    converted[id(tensor)] = self._over_base(tensor)
            return [(converted[id(tensor)], place) for tensor, place in rows]

        for answer in answers:
            if answer is not None:
                answer.rows = changed(answer.rows)
                answer.exits = {layer: changed(rows) for layer, rows in answer.exits.items()}

    def said(self, logprobs: Tensor) -> Tensor:
        """Return rows in which a token that the model lacks has the log-probability 0."""
        return logprobs.masked_fill(self._lacking, 0.0)

    def _over_base(self, logprobs: Tensor) -> Tensor:
        """Return log-probabilities [rows, own tokens] as rows [rows, base tokens].

        Tokens that the model lacks have the probability 0, and all its ends are one event.
        """
        shared, (rows, width) = self.shared, logprobs.shape
        shape = rows, max(0, shared.base.size - width)
        missing = logprobs.new_full(shape, -math.inf)
        over_base = torch.cat([logprobs[:, : shared.base.size], missing], dim=1)
        over_base = over_base.masked_fill_(self._lacking, -math.inf)
        if shared.own_ends:
            ends = logprobs.masked_fill(self._not_an_end, -math.inf)
            over_base[:, shared.ends[0]] = ends.logsumexp(dim=-1)
        # A row that is NaN stays NaN in all columns, also in the columns of lacking tokens.
        return over_base.masked_fill_(logprobs[:, -1:].isnan(), math.nan)
