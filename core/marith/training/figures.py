"""Figures by prefix length: held-out texts, judged as the classifier of a formula judges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from marith.scoring.terms.whole_texts import Case, WholeTextRunner, to_logprobs
from marith.training.base import Base
from marith.training.data.encoded_texts import LabelledTokens
from marith.training.data.prefixes import SpecialTokens
from marith.training.report import Line

_AT_ONCE = 256


def lengths(texts: Sequence[Sequence[int]]) -> list[int | None]:
    """1, 2, 4, 8 … tokens, as long as a text has more; then None, the whole."""
    longest, result, length = max(map(len, texts)), list[int | None](), 1
    while length < longest:
        result.append(length)
        length *= 2
    return [*result, None]


def by_length(
    base: Base,
    special_tokens: SpecialTokens,
    held_out: LabelledTokens,
    balance: bool,
    advance: Callable[[int], None],
) -> Iterator[Line]:
    """A line for each length; `advance` receives how many more texts were classified."""
    runner = WholeTextRunner(base.model.eval(), base.padding)
    right = torch.tensor(held_out.classes)
    for length in lengths(held_out.texts):
        rows = [special_tokens.around(text[:length]) for text in held_out.texts]
        batches = []
        for start in range(0, len(rows), _AT_ONCE):
            [result] = runner.classify([Case(None, rows[start : start + _AT_ONCE])])
            batches.append(to_logprobs(base.model.config, result.logits).cpu())
            advance(len(batches[-1]))
        longer = 0 if length is None else sum(len(text) > length for text in held_out.texts)
        yield figures(torch.cat(batches), right, balance, length, longer)


def figures(
    logprobs: Tensor, right: Tensor, balance: bool, length: int | None, longer: int
) -> Line:
    """The figures of log-probabilities [texts, classes] where the classes `right` [texts] are."""
    ones = torch.ones(len(right), dtype=torch.double)
    weights = shares(right, logprobs.shape[1]) if balance else ones / len(right)
    hit = logprobs.argmax(dim=1) == right
    losses = -logprobs.double().gather(1, right[:, None])[:, 0]
    ranked = [auc(logprobs[:, i], right == i) for i in range(logprobs.shape[1])]
    return Line(
        length,
        float((hit * weights).sum()),
        sum(ranked) / len(ranked),
        float((losses * weights).sum()),
        longer,
    )


def shares(classes: Tensor, count: int) -> Tensor:
    """What each text weighs [texts] where every class weighs the same; 1 together."""
    return 1 / (count * torch.bincount(classes, minlength=count).double()[classes])


def auc(scores: Tensor, positive: Tensor) -> float:
    """How often a text of the class scores above one of another; equal scores count half."""
    _, groups, counts = scores.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    ranks = (last - (counts - 1) / 2)[groups]  # equal scores share their mean rank
    positives = int(positive.sum())
    negatives = len(scores) - positives
    above = float(ranks[positive].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)
