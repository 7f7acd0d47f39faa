"""Prefixes of texts as a classifier reads them, side by side in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.training.labelled_texts import random_source

POOL = 16  # batches among which texts are sorted by length: little is padding then


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The tokens that a tokenizer adds before and after a text."""

    head: tuple[int, ...] = ()
    foot: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many tokens they are."""
        return len(self.head) + len(self.foot)

    @property
    def shortest(self) -> int:
        """Tokens of the shortest prefix that can be judged: 0 where there are special tokens."""
        return 0 if self.count else 1

    def around(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The tokens of a text, or of a prefix of it, as the classifier reads them."""
        return (*self.head, *tokens, *self.foot)


def special_tokens_of(vocabulary: Vocabulary, text: str) -> SpecialTokens:
    """The special tokens around `text`, which are the same for every text."""
    bare, marked = vocabulary.encode(text), vocabulary.encode(text, start=True)
    added = len(marked) - len(bare)
    for at in range(added + 1):
        if marked[at : at + len(bare)] == bare:
            return SpecialTokens(tuple(marked[:at]), tuple(marked[at + len(bare) :]))
    return SpecialTokens()


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first `length` tokens of one example."""

    example: int
    length: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens [rows, length], where they are no padding [rows, length], and classes [rows].

    Rows are padded on the right: under a causal mask no token sees the padding.
    """

    tokens: Tensor
    mask: Tensor
    classes: Tensor

    @classmethod
    def of(
        cls,
        rows: Sequence[Sequence[int]],
        classes: Sequence[int],
        padding: int,
        device: torch.device | str = "cpu",
    ) -> Batch:
        """Return rows as they are read, special tokens included, on `device`."""
        tokens = pad_sequence([*map(torch.tensor, rows)], True, padding)
        lengths = torch.tensor([*map(len, rows)])
        mask = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
        return cls(tokens.to(device), mask.to(device), torch.tensor(classes, device=device))


def drawn(
    texts: Sequence[Sequence[int]], chosen: Sequence[int], shortest: int, seed: int, epoch: int
) -> list[Prefix]:
    """A prefix of each chosen example, its length uniform from `shortest` to the whole (FUDGE).

    Other lengths in every epoch.
    """
    draw = random_source(seed, "prefixes", epoch)
    return [Prefix(example, draw.randint(shortest, len(texts[example]))) for example in chosen]


def grouped(prefixes: Sequence[Prefix], size: int, seed: int, epoch: int) -> list[list[Prefix]]:
    """Batches of `size` prefixes, of about one length each, in random order."""
    draw = random_source(seed, "batches", epoch)
    batches: list[list[Prefix]] = []
    for start in range(0, len(prefixes), POOL * size):
        pool = sorted(prefixes[start : start + POOL * size], key=lambda prefix: prefix.length)
        cut = [pool[i : i + size] for i in range(0, len(pool), size)]
        draw.shuffle(cut)
        batches += cut
    return batches
