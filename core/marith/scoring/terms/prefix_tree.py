"""Texts with common beginnings as one tree of tokens, which one pass reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.scoring.lane_text import common
from marith.scoring.terms.whole_texts import Text

# A new tree begins when a tree has this number of tokens. One pass reads one tree of each case.
ROOM = 256


@dataclass(slots=True)
class PrefixTree:
    """The tokens of texts after their common prefix with a root text, as a tree, depth first.

    For each token, `places` has its place in its text, `forks` has the number of tokens of the root
    text before it, and `ends` has one past the index of its last descendant. `leaves` maps the
    number of a text to the index of its last token.
    """

    tokens: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    forks: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    leaves: dict[int, int] = field(default_factory=dict)

    def mask(self) -> Tensor:
        """Return which tokens of the tree each token attends to, [tokens, tokens].

        A token attends to its ancestors and to itself.
        """
        order, ends = torch.arange(len(self.tokens)), torch.tensor(self.ends, dtype=torch.long)
        return (order <= order[:, None]) & (order[:, None] < ends)

    def add(self, path: list[int], fork: int, suffix: Text) -> None:
        """Add `suffix` after the last token of `path`, as descendants of all tokens of the path."""
        for token in suffix:
            path.append(len(self.tokens))
            self.tokens.append(token)
            self.places.append(fork + len(path) - 1)
            self.forks.append(fork)
            self.ends.append(0)
        for node in path:
            self.ends[node] = len(self.tokens)


def prefix_trees(root: Text, texts: Sequence[Text]) -> tuple[dict[int, int], list[PrefixTree]]:
    """Return where texts end inside the root, and the trees of all other texts.

    The dict maps the number of each text that is a prefix of the root to the index of its last
    token. When a tree has `ROOM` tokens, another tree begins. A text without tokens is in neither
    result.
    """
    stops: dict[int, int] = {}
    trees = [PrefixTree()]
    path: list[int] = []
    last: tuple[int, Text] = (0, ())
    # In sorted order, texts with a common prefix follow each other.
    for fork, suffix, number in sorted(_after_root(root, texts)):
        if not suffix:
            stops[number] = fork
            continue
        shared = common(list(last[1]), list(suffix)) if fork == last[0] else 0
        # A tree cannot end where the next text shares a prefix with the last one.
        if not shared and len(trees[-1].tokens) >= ROOM:
            trees.append(PrefixTree())
        del path[shared:]
        trees[-1].add(path, fork, suffix[shared:])
        trees[-1].leaves[number] = path[-1]
        last = fork, suffix
    return {number: fork - 1 for number, fork in stops.items() if fork}, trees


def _after_root(root: Text, texts: Sequence[Text]) -> list[tuple[int, Text, int]]:
    """Return a tuple for each text: the length of its prefix in the root, its rest, its number."""
    stem = list(root)
    forks = [common(stem, list(text)) for text in texts]
    return [(fork, text[fork:], i) for i, (fork, text) in enumerate(zip(forks, texts, strict=True))]
