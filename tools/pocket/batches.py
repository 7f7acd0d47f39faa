"""Documents as tensors: rows of similar length side by side, so that they have little padding."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from tools.pocket import corpus
from tools.pocket.grammar.document import Document

PAD = 0
# Rows are sorted by length within this many steps, which gives a tenth less padding than one step.
POOL = 6

Row = tuple[list[int], list[float]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens [rows, length], and the weight of the loss of each token [rows, length].

    Rows are padded on the right, so that under a causal mask no token sees the padding.
    """

    tokens: Tensor
    weights: Tensor
    count: int

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`."""
        return Batch(self.tokens.to(device), self.weights.to(device), self.count)


def steps(
    stream: Iterable[Document], tokenizer: PreTrainedTokenizerFast, step: int, batch: int
) -> Iterator[list[Batch]]:
    """Yield groups of about `step` tokens, each of several batches of about `batch` tokens."""
    group: list[Batch] = []
    for pool in pools(stream, tokenizer, POOL * step):
        # A batch has rows of one length, mostly of one kind, so a step mixes several batches.
        cut = split(pool, batch)
        random.Random(len(pool)).shuffle(cut)
        for one in cut:
            group.append(one)
            if sum(each.count for each in group) >= step:
                yield group
                group = []


def pools(
    stream: Iterable[Document], tokenizer: PreTrainedTokenizerFast, count: int
) -> Iterator[list[Row]]:
    """Yield rows of about `count` tokens together, in the order of the stream."""
    rows: list[Row] = []
    held, limit = 0, tokenizer.model_max_length
    for document in stream:
        tokens, weights = corpus.render(document, tokenizer)
        rows.append((tokens[:limit], weights[:limit]))
        held += len(rows[-1][0])
        if held >= count:
            yield rows
            rows, held = [], 0


def split(rows: list[Row], batch: int) -> list[Batch]:
    """Return rows sorted by length, cut before a batch with its padding exceeds `batch` tokens."""
    batches: list[Batch] = []
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: -len(row[0])):
        if kept and (len(kept) + 1) * len(kept[0][0]) > batch:
            batches.append(stack(kept))
            kept = []
        kept.append(row)
    return [*batches, stack(kept)]


def stack(rows: list[Row]) -> Batch:
    """Return one batch that is as long as its longest row."""
    length = max(len(tokens) for tokens, _ in rows)
    tokens = [tokens + [PAD] * (length - len(tokens)) for tokens, _ in rows]
    weights = [weights + [0.0] * (length - len(weights)) for _, weights in rows]
    count = sum(len(tokens) for tokens, _ in rows)
    return Batch(torch.tensor(tokens), torch.tensor(weights), count)
