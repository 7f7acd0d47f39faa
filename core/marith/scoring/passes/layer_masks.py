"""What each kind of layer sees of the keys that a pass reads: all, a window, or a chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

# Where a configuration says how wide the layers of a kind see.
WIDTHS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
FULL = "full_attention"
_READ = {FULL, "global", *WIDTHS}  # the kinds of layers whose keys a mask can choose

Mask: TypeAlias = "Tensor | dict[str, Tensor]"


@dataclass(frozen=True, slots=True)
class LayerMasks:
    """Makes the attention masks of one model, as its code takes them.

    `widths` has for each kind of layer the tokens that its window or its chunk holds, None where
    the layer sees the whole text. Under the name "" stands the one mask of a model that takes no
    others. `additive` is the type of a mask that the model adds to its attention's scores; None for
    boolean masks.
    """

    widths: Mapping[str, int | None]
    additive: torch.dtype | None = None

    @classmethod
    def of_model(cls, model: Any) -> LayerMasks:
        """Return the masks that a model takes.

        A model that names the kinds of its layers takes a mask for each kind. Others take one.
        """
        text, additive = model.config.get_text_config(), mask_dtype(model)
        kinds = set(getattr(text, "layer_types", None) or ())
        widths = {kind: getattr(text, key, None) for kind, key in WIDTHS.items() if kind in kinds}
        by_kind = cls({FULL: None, **widths}, additive)
        if not kinds:
            slides = getattr(text, "use_sliding_window", True)
            width = getattr(text, "sliding_window", None) if slides else None
            return cls({"": width}, additive)
        return by_kind if any(widths.values()) else cls({"": None}, additive)

    def by_layer(self, model: Any) -> list[int | None]:
        """How many tokens each layer sees at most; None where it sees the whole text."""
        text = model.config.get_text_config()
        if "" in self.widths:
            return [self.widths[""]] * layer_count(model)
        return [self.widths.get(kind) for kind in text.layer_types]

    def of(self, places: Tensor, seen: int) -> Mask:
        """What each position [rows, width] sees of the first `seen` slots of its row.

        Slots hold keys in their order. A tensor [rows, 1, width, seen], or one for each kind.
        """
        slots = torch.arange(seen, device=places.device)
        return self.within(slots <= places[:, :, None], places, slots)

    def within(self, seen: Tensor, places: Tensor, keys: Tensor) -> Mask:
        """What of the keys `seen`, [rows, width, keys], each kind of layer sees.

        `places` are those of the queries, [rows, width], `keys` those of the keys: [keys], or
        [rows, 1, keys].
        """
        masks = {
            kind: attended(seen & near(kind, width, places[:, :, None], keys), self.additive)
            if width is not None and width < seen.shape[-1]
            else attended(seen, self.additive)
            for kind, width in self.widths.items()
        }
        return masks.get("", masks)


def unread_kinds(model: Any) -> str:
    """What kinds of layers need another cache than keys and values by lanes; empty if none do."""
    text = model.config.get_text_config()
    listed = getattr(text, "layer_types", None) or getattr(text, "attention_layers", None)
    kinds = sorted(set(listed or ()) - _READ)
    return f"it has layers of kind {', '.join(kinds)}" if kinds else ""


def layer_count(model: Any) -> int:
    """How many layers keep keys and values: those that decode, where others encode."""
    text = model.config.get_text_config()
    return int(getattr(text, "decoder_layers", None) or text.num_hidden_layers)


def near(kind: str, width: int, places: Tensor, keys: Tensor) -> Tensor:
    """Which keys lie in the window of each place, or in its chunk."""
    chunked = kind == "chunked_attention"
    return keys >= (places // width * width if chunked else places - width + 1)


def attended(seen: Tensor, additive: torch.dtype | None = None) -> Tensor:
    """What each position sees, [rows, width, seen], as a model's attention takes it.

    [rows, 1, width, seen], boolean, or a number to be added to the attention's scores.
    """
    mask = seen[:, None]
    if additive is None:
        return mask
    shut = torch.zeros(mask.shape, dtype=additive, device=mask.device)
    return shut.masked_fill(~mask, torch.finfo(additive).min)


def mask_dtype(model: Any) -> torch.dtype | None:
    """What a mask is made of that the model adds to its attention's scores; None for booleans."""
    additive = getattr(model.config, "_attn_implementation", "sdpa") != "sdpa"
    return model.dtype if additive else None
