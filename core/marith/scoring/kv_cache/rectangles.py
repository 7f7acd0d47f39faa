"""What a pass reads: rectangles of new tokens, one or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from marith.scoring.kv_cache.lanes import Lane

if TYPE_CHECKING:
    from marith.scoring.language_model.lora import Adapter


@dataclass(slots=True)
class Rectangle:
    """New tokens of some texts, [texts, width], with their places; in order of their lanes' rows.

    Texts are aligned at their ends. The first `padding` tokens of each are none: they stand at
    place 0 and nobody reads them. Logits are asked of the last `count` positions.
    """

    lanes: Sequence[Lane]
    ids: Tensor
    places: Tensor
    padding: Sequence[int]
    adapters: Sequence[Adapter | None]
    count: int = 1

    @property
    def width(self) -> int:
        """How many positions each text has."""
        return self.ids.shape[1]


def rectangle(
    lanes: Sequence[Lane],
    given: Sequence[Sequence[int]],
    adapters: Sequence[Adapter | None],
    count: int,
) -> Rectangle:
    """That of tokens which follow what each lane holds."""
    width = max(map(len, given))
    padding = [width - len(tokens) for tokens in given]
    ids, places = [], []
    for lane, tokens, none in zip(lanes, given, padding, strict=True):
        start = len(lane.tokens)
        ids.append([*[0] * none, *tokens])
        places.append([*[0] * none, *range(start, start + len(tokens))])
    return Rectangle(
        lanes, torch.tensor(ids), torch.tensor(places), padding, adapters, min(width, count)
    )


def beside(parts: Sequence[Tensor]) -> Tensor:
    """One rectangle as it is, [texts, width]; the tokens of several in one row, [1, tokens]."""
    return parts[0] if len(parts) == 1 else torch.cat([part.flatten() for part in parts])[None]


def kept(rectangles: Sequence[Rectangle]) -> int | Tensor:
    """Of which positions logits are asked: the last ones of one rectangle, or places in the row."""
    if len(rectangles) == 1:
        return rectangles[0].count
    places, start = [], 0
    for each in rectangles:
        size = each.ids.numel()
        ends = torch.arange(start, start + size).view(each.ids.shape)[:, -each.count :]
        places.append(ends.flatten())
        start += size
    return torch.cat(places)


def adapters_of(rectangles: Sequence[Rectangle]) -> list[Adapter | None]:
    """The adapter of each text of one rectangle, or of each token of several."""
    if len(rectangles) == 1:
        return [*rectangles[0].adapters]
    return [one for each in rectangles for one in each.adapters for _ in range(each.width)]
