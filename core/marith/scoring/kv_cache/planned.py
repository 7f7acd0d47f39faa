"""What texts will hold at most, before they are read: what decides whether there is memory."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

BLOCK = 16  # tokens, by which prefixes are compared
COPIED = 63  # so many tokens of a prefix in common may be copied, and not shared: see SegmentLanes


@dataclass(frozen=True, eq=False, slots=True)
class Planned:
    """A prompt, and at most `more` tokens after it. Texts of the same `key` may share prefixes.

    `prefixes` are numbers of the prompt's first 16, 32, ... tokens: only equal prefixes of texts
    of the same key have the same.
    """

    key: Hashable
    prompt: Sequence[int]
    more: int
    prefixes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", tuple(_prefixes(self.key, self.prompt)))

    @property
    def length(self) -> int:
        """All its tokens."""
        return len(self.prompt) + self.more


def _prefixes(key: Hashable, prompt: Sequence[int]) -> Iterator[int]:
    """Others have the same number once in 2^64: bytes are hashed with a secret of the process."""
    number, tokens = hash(key), array("q", prompt)
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        number = hash((number, tokens[end - BLOCK : end].tobytes()))
        yield number


def own_lengths(texts: Iterable[Planned]) -> Iterator[int]:
    """How many tokens of each text no other before it holds for it, at most.

    What prompts have in common counts once, but for what may be copied.
    """
    known: set[int] = set()
    for text in texts:
        shared = sum(number in known for number in text.prefixes)
        known.update(text.prefixes)
        yield text.length - max(0, BLOCK * shared - COPIED)
