"""What texts will hold at most, before they are read: what decides whether there is memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from marith.scoring.kv_cache.lanes import common


@dataclass(frozen=True, slots=True)
class Planned:
    """A prompt, and at most `more` tokens after it. Texts of the same `weights` may share."""

    weights: Hashable
    prompt: Sequence[int]
    more: int

    @property
    def length(self) -> int:
        """All its tokens."""
        return len(self.prompt) + self.more


def own_lengths(texts: Iterable[Planned]) -> Iterator[int]:
    """How many tokens of each text no other holds for it: what prompts have in common counts once.

    In no given order. Prompts that are sorted share the most with the one before.
    """
    alike: dict[Hashable, list[tuple[list[int], int]]] = defaultdict(list)
    for text in texts:
        alike[text.weights].append(([*text.prompt], text.more))
    for group in alike.values():
        group.sort()
        yield len(group[0][0]) + group[0][1]
        for (before, _), (prompt, more) in pairwise(group):
            yield len(prompt) + more - common(before, prompt)
