"""The direction of each layer, how well it separates held-out states, and which layers to use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marith.training.report import auc

# Layers are chosen between these shares of a model's depth.
MIDDLE = 1 / 3, 3 / 4
# A layer is chosen if its AUC lies at least this share of the largest distance above chance.
NEAR = 0.5


@dataclass(frozen=True, slots=True)
class LayerLine:
    """Figures of one decoder layer, which is counted from 0, on held-out texts.

    `auc` is the share of pairs of a positive and a negative state in which the positive state lies
    further along the direction: 0.5 is chance. `effect` is Cohen's d: the distance of the two means
    along the direction, in standard deviations. `size` is the length of the direction, divided by
    the mean length of the states: at 0.1, strength 1 moves a state by a tenth of its length.
    """

    layer: int
    auc: float
    effect: float
    size: float
    chosen: bool = False


class Means:
    """The mean hidden state of each layer, and the mean length of its states, over batches."""

    def __init__(self, layers: int, width: int) -> None:
        self._sums = torch.zeros(layers, width, dtype=torch.double)
        self._lengths = torch.zeros(layers, dtype=torch.double)
        self._counts = torch.zeros(layers, dtype=torch.double)

    def add(self, layer: int, states: Tensor) -> None:
        """Count states [tokens, width] of a layer."""
        self._sums[layer] += states.sum(dim=0)
        self._lengths[layer] += states.norm(dim=1).sum()
        self._counts[layer] += len(states)

    @property
    def states(self) -> Tensor:
        """The mean states [layers, width]."""
        return self._sums / self._counts[:, None]

    @property
    def lengths(self) -> Tensor:
        """The mean lengths [layers]."""
        return self._lengths / self._counts


class Projections:
    """How far hidden states lie along the directions [layers, width] of their layers."""

    def __init__(self, directions: Tensor) -> None:
        self._units = torch.nn.functional.normalize(directions, dim=1)
        self._found: list[list[Tensor]] = [[] for _ in directions]

    def add(self, layer: int, states: Tensor) -> None:
        """Project states [tokens, width] of a layer."""
        self._found[layer].append(states @ self._units[layer])

    @property
    def distances(self) -> Tensor:
        """The distances [tokens, layers]."""
        return torch.stack([torch.cat(found) for found in self._found], dim=1)


def measure(positive: Tensor, negative: Tensor, sizes: Iterable[float]) -> list[LayerLine]:
    """Return a line for each layer, from held-out projections [tokens, layers] of both sides."""
    which = torch.arange(len(positive) + len(negative)) < len(positive)
    lines = []
    for layer, size in enumerate(sizes):
        ours, theirs = positive[:, layer], negative[:, layer]
        lines.append(
            LayerLine(layer, auc(torch.cat((ours, theirs)), which), effect(ours, theirs), size)
        )
    return lines


def effect(ours: Tensor, theirs: Tensor) -> float:
    """Return Cohen's d: the distance of two means in pooled standard deviations."""
    degrees = len(ours) + len(theirs) - 2
    squares = sum((one - one.mean()).square().sum() for one in (ours, theirs))
    spread = (squares / max(degrees, 1)) ** 0.5
    return float((ours.mean() - theirs.mean()) / torch.as_tensor(spread).clamp_min(1e-12))


def choose(aucs: Sequence[float]) -> tuple[int, int]:
    """Return the first and the last layer to use, by the AUC of each layer.

    Only layers between a third and three quarters of the model's depth count, and never layer 0,
    because llama.cpp adds no direction there. Of these layers, the first and the last are returned
    whose AUC lies at least half as far above 0.5 as the best AUC: at a best AUC of 0.9, at least
    0.7.
    """
    low = max(1, int(len(aucs) * MIDDLE[0]))
    high = max(low + 1, int(len(aucs) * MIDDLE[1]))
    best = max(aucs[low:high])
    enough = min(best, 0.5 + NEAR * (best - 0.5))
    good = [layer for layer in range(low, high) if aucs[layer] >= enough]
    return good[0], good[-1]
