"""Texts with common beginnings as one tree of tokens, which one pass reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.scoring.passes.lanes import common
from marith.scoring.terms.whole_texts import Text

ROOM = 256  # tokens of a tree in one pass; the rest is read in further passes


@dataclass(slots=True)
class PrefixTree:
    """Tokens that follow a prefix of the root text, in depth-first order.

    For each token, `places` has its place in its text, `forks` the number of the root's tokens
    before it, and `ends` the index after its last follower. `leaves` has the index of the last
    token of each text, by the text's number.
    """

    tokens: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    forks: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    leaves: dict[int, int] = field(default_factory=dict)

    def mask(self) -> Tensor:
        """Return which tokens each token of the tree attends to, itself too, [tokens, tokens]."""
        order, ends = torch.arange(len(self.tokens)), torch.tensor(self.ends, dtype=torch.long)
        return (order <= order[:, None]) & (order[:, None] < ends)

    def add(self, path: list[int], fork: int, suffix: Text) -> None:
        """Add `suffix` after the last token of `path`. Every token of the path gains followers."""
        for token in suffix:
            path.append(len(self.tokens))
            self.tokens.append(token)
            self.places.append(fork + len(path) - 1)
            self.forks.append(fork)
            self.ends.append(0)
        for node in path:
            self.ends[node] = len(self.tokens)


def prefix_trees(root: Text, texts: Sequence[Text]) -> tuple[dict[int, int], list[PrefixTree]]:
    """Return the ends of the texts that are prefixes of the root, and the trees of the others.

    The ends are indices into the root, by the number of the text. When a tree has `ROOM` tokens,
    another tree begins. A text without tokens has neither an end nor a leaf.
    """
    stops: dict[int, int] = {}
    trees = [PrefixTree()]
    path: list[int] = []
    last: tuple[int, Text] = (0, ())
    for fork, suffix, number in sorted(_after_root(root, texts)):
        if not suffix:
            stops[number] = fork
            continue
        shared = common(list(last[1]), list(suffix)) if fork == last[0] else 0
        if not shared and len(trees[-1].tokens) >= ROOM:
            trees.append(PrefixTree())
        del path[shared:]
        trees[-1].add(path, fork, suffix[shared:])
        trees[-1].leaves[number] = path[-1]
        last = fork, suffix
    return {number: fork - 1 for number, fork in stops.items() if fork}, trees


def _after_root(root: Text, texts: Sequence[Text]) -> list[tuple[int, Text, int]]:
    """Return where each text leaves the root, the rest of the text, and its number."""
    stem = list(root)
    forks = [common(stem, list(text)) for text in texts]
    return [(fork, text[fork:], i) for i, (fork, text) in enumerate(zip(forks, texts, strict=True))]
