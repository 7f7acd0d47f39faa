"""Texts with common beginnings as a prefix tree: a token that several texts share occurs once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.scoring.passes.lanes import common
from marith.scoring.terms.classifier.whole_texts import Text

ROOM = 256  # tokens of a tree in one pass; the rest is read in further passes


@dataclass(slots=True)
class PrefixTree:
    """Tokens that follow a beginning of the root text, in depth-first order.

    For each token: its place in its text, how many tokens of the root come before it, and where
    its own followers end. `leaves` says which token is the last of which text.
    """

    tokens: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    forks: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    leaves: dict[int, int] = field(default_factory=dict)

    def mask(self) -> Tensor:
        """Which token of the tree attends to which, itself included, [tokens, tokens]."""
        order, ends = torch.arange(len(self.tokens)), torch.tensor(self.ends, dtype=torch.long)
        return (order <= order[:, None]) & (order[:, None] < ends)

    def add(self, path: list[int], fork: int, suffix: Text) -> None:
        """Go on from the last token of a path, whose tokens all gain followers."""
        for token in suffix:
            path.append(len(self.tokens))
            self.tokens.append(token)
            self.places.append(fork + len(path) - 1)
            self.forks.append(fork)
            self.ends.append(0)
        for node in path:
            self.ends[node] = len(self.tokens)


def prefix_trees(root: Text, texts: Sequence[Text]) -> tuple[dict[int, int], list[PrefixTree]]:
    """Where texts that are a beginning of the root end; trees of the others, `ROOM` tokens each.

    Texts go by their number; one without tokens is neither.
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
    """Where each text leaves the root, with what, and its number."""
    stem = list(root)
    forks = [common(stem, list(text)) for text in texts]
    return [(fork, text[fork:], i) for i, (fork, text) in enumerate(zip(forks, texts, strict=True))]
