"""Passes of llama.cpp as those of a model: what goes in by lane, log-probabilities come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.memory import Planned
from marith.scoring.passes.lanes import Lane
from marith.scoring.passes.passes import Passes
from marith.scoring.passes.sequence_lanes import SequenceLanes, SequenceWeight
from marith.scoring.passes.stores import Rectangle
from marith.scoring.weights.ggml_context import GGMLContext, Item


class SequenceStore:
    """The memory of one context as the store of a runner. One pass reads texts of any lengths."""

    packs = True
    cache = None
    reader = None

    def __init__(self, context: GGMLContext, most_bytes: int, weight: SequenceWeight) -> None:
        self.context = context
        self.lanes = SequenceLanes(context, most_bytes, weight)

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes lanes of these texts take at most."""
        return self.lanes.memory(texts)

    def aim(self, rectangles: Sequence[Rectangle]) -> Aimed:
        """What the next pass reads of these texts, with logits of the last positions of each."""
        items, lanes = [], []
        for each in rectangles:
            assert not any(each.padding), "a store that packs has texts of one width together"
            first = each.width - each.count
            rows = zip(each.lanes, each.ids.tolist(), each.places.tolist(), strict=True)
            for lane, tokens, places in rows:
                lanes.append(lane)
                items += [
                    Item(token, place, lane.row, i >= first)
                    for i, (token, place) in enumerate(zip(tokens, places, strict=True))
                ]
        return Aimed(self, items, lanes)


@dataclass(frozen=True, slots=True)
class Aimed:
    """What a pass reads, and where; the lanes that it is of."""

    store: SequenceStore
    items: Sequence[Item]
    lanes: Sequence[Lane]


class SequencePasses(Passes):
    """Passes of all contexts of one model."""

    exits_checked = False

    @property
    def exits(self) -> Any:
        """Raises ModelError: llama.cpp gives the logits of the last layer alone."""
        raise ModelError(
            f"backend='llama.cpp' gives no log-probabilities of inner layers, so no term of "
            f"{self.name!r} can have exit_layer; backend=None reads the file with transformers"
        )

    def read_by(self, _tree: None) -> Self:
        """Itself: what a pass is given names the context that it reads."""
        return self

    def run(
        self, _adapters: Sequence[Any], _kept: int | Tensor, _layers: Sequence[int], **inputs: Any
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits [1, positions, vocab] of what a store has aimed at.

        Raises ModelError where llama.cpp fails, and then nothing is held.
        """
        aimed: Aimed = inputs["attention_mask"]
        context, lanes = aimed.store.context, aimed.store.lanes
        try:
            while (logits := context.decode(aimed.items)) is None:
                lanes.make_places(aimed.lanes, len(aimed.items))
        except ModelError:
            lanes.forget()
            raise
        return torch.from_numpy(logits)[None], []
