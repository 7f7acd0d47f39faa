"""Texts that begin alike, as branches on a trunk: every shared token stands there once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.scoring.classifier.whole_texts import Text
from marith.scoring.kv_cache.lanes import common

ROOM = 256  # so many tokens of branches in a pass; the rest in further passes


@dataclass(slots=True)
class Branches:
    """Tokens that leave a trunk, each before all that go on from it.

    For each token: its place in its text, how many tokens of the trunk stand before it, and where
    its own followers end. `leaves` says which token is the last of which text.
    """

    tokens: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    forks: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    leaves: dict[int, int] = field(default_factory=dict)

    def sight(self) -> Tensor:
        """Which branch token sees which, itself included, [tokens, tokens]."""
        order, ends = torch.arange(len(self.tokens)), torch.tensor(self.ends, dtype=torch.long)
        return (order <= order[:, None]) & (order[:, None] < ends)

    def grow(self, path: list[int], fork: int, suffix: Text) -> None:
        """Go on from the last token of a path, whose tokens all gain followers."""
        for token in suffix:
            path.append(len(self.tokens))
            self.tokens.append(token)
            self.places.append(fork + len(path) - 1)
            self.forks.append(fork)
            self.ends.append(0)
        for node in path:
            self.ends[node] = len(self.tokens)


def graft(trunk: Text, texts: Sequence[Text]) -> tuple[dict[int, int], list[Branches]]:
    """The texts that end on the trunk, by where; the others as branches, some room's worth each.

    Texts go by their number; one without tokens is neither.
    """
    stops: dict[int, int] = {}
    grown = [Branches()]
    path: list[int] = []
    last: tuple[int, Text] = (0, ())
    for fork, suffix, number in sorted(_parted(trunk, texts)):
        if not suffix:
            stops[number] = fork
            continue
        shared = common(list(last[1]), list(suffix)) if fork == last[0] else 0
        if not shared and len(grown[-1].tokens) >= ROOM:
            grown.append(Branches())
        del path[shared:]
        grown[-1].grow(path, fork, suffix[shared:])
        grown[-1].leaves[number] = path[-1]
        last = fork, suffix
    return {number: fork - 1 for number, fork in stops.items() if fork}, grown


def _parted(trunk: Text, texts: Sequence[Text]) -> list[tuple[int, Text, int]]:
    """Where each text leaves the trunk, with what, and its number."""
    stem = list(trunk)
    forks = [common(stem, list(text)) for text in texts]
    return [(fork, text[fork:], i) for i, (fork, text) in enumerate(zip(forks, texts, strict=True))]
