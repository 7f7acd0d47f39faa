"""Cut prefixes of texts, and put them into batches as a classifier reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.training.labelled_texts import random_source

# The prefixes of this many batches are sorted by length before they are cut into batches, so that
# each batch has little padding.
POOL = 16


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The tokens that a tokenizer adds before and after a text."""

    head: tuple[int, ...] = ()
    foot: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of special tokens."""
        return len(self.head) + len(self.foot)

    @property
    def shortest(self) -> int:
        """The minimum length of a prefix: 0 if there are special tokens, else 1."""
        return 0 if self.count else 1

    def around(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens of a text, or of its prefix, as the classifier reads them."""
        return (*self.head, *tokens, *self.foot)


def special_tokens_of(vocabulary: Vocabulary, text: str) -> SpecialTokens:
    """Return the special tokens around `text`, which are the same for every text."""
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
    """Tokens [rows, length], a mask that is 0 for padding [rows, length], and classes [rows].

    Rows are padded on the right, so that under a causal mask no token sees the padding.
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
        """Return a batch on `device`. `rows` include special tokens."""
        tokens = pad_sequence([*map(torch.tensor, rows)], True, padding)
        lengths = torch.tensor([*map(len, rows)])
        mask = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
        return cls(tokens.to(device), mask.to(device), torch.tensor(classes, device=device))


def drawn(
    texts: Sequence[Sequence[int]], chosen: Sequence[int], shortest: int, seed: int, epoch: int
) -> list[Prefix]:
    """Return a random prefix of each chosen example (FUDGE).

    Its length is uniform from `shortest` to the whole length, and is drawn again for every epoch.
    """
    draw = random_source(seed, "prefixes", epoch)
    return [Prefix(example, draw.randint(shortest, len(texts[example]))) for example in chosen]


def grouped(prefixes: Sequence[Prefix], size: int, seed: int, epoch: int) -> list[list[Prefix]]:
    """Return batches of `size` prefixes of similar length, in random order."""
    draw = random_source(seed, "batches", epoch)
    batches: list[list[Prefix]] = []
    for start in range(0, len(prefixes), POOL * size):
        pool = sorted(prefixes[start : start + POOL * size], key=lambda prefix: prefix.length)
        cut = [pool[i : i + size] for i in range(0, len(pool), size)]
        draw.shuffle(cut)
        batches += cut
    return batches
