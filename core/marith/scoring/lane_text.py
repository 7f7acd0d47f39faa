"""The texts that lanes will hold, and the prefixes that they share."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

# Prefixes are compared in blocks of this number of tokens.
BLOCK = 16
# SegmentLanes copies a common prefix of at most this number of tokens, and shares a longer one.
COPIED = 63


@dataclass(frozen=True, eq=False, slots=True)
class LaneText:
    """A prompt, and at most `more` tokens after it. Texts with equal `key` may share prefixes.

    `prefixes` are hashes of the prompt's first 16, 32, … tokens. Two texts have a hash in common
    only if their keys and these tokens are equal.
    """

    key: Hashable
    prompt: Sequence[int]
    more: int
    prefixes: tuple[int, ...]

    @classmethod
    def of(cls, key: Hashable, prompt: Sequence[int], more: int = 0) -> LaneText:
        """Return a text, with the hashes of its prompt."""
        return cls(key, prompt, more, tuple(_prefixes(key, prompt)))

    @property
    def length(self) -> int:
        """The number of tokens, the prompt included."""
        return len(self.prompt) + self.more


def _prefixes(key: Hashable, prompt: Sequence[int]) -> Iterator[int]:
    """Yield a hash of the first 16, 32, … tokens of a prompt.

    Different prefixes have equal hashes with a probability of 2^-64, because bytes are hashed with
    a secret of the process.
    """
    number, tokens = hash(key), array("q", prompt)
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        number = hash((number, tokens[end - BLOCK : end].tobytes()))
        yield number


def own_lengths(texts: Iterable[LaneText]) -> Iterator[int]:
    """Yield an upper bound on the tokens that each text does not share with the texts before it.

    A common prefix of prompts counts once, except for `COPIED` tokens of it, which may be copied.
    """
    known: set[int] = set()
    for text in texts:
        shared = sum(number in known for number in text.prefixes)
        known.update(text.prefixes)
        yield text.length - max(0, BLOCK * shared - COPIED)


def common(kept: list[int], asked: list[int]) -> int:
    """Return the length of the common prefix.

    The search is by bisection, because slices compare faster than single tokens.
    """
    low, high = 0, min(len(kept), len(asked))
    if asked[:high] == kept[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if asked[low:middle] == kept[low:middle]:
            low = middle
        else:
            high = middle
    return low
