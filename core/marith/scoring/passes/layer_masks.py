"""Attention masks: the keys that each kind of layer sees (all, a window, or a chunk)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

# Each kind of layer maps to the key of the configuration that holds its width.
WIDTHS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
FULL = "full_attention"
# For layers of these kinds, a mask can choose the keys that a query sees.
_READ = {FULL, "global", *WIDTHS}

# The mask of all layers, or of each kind of layer. None stands for plain causal attention.
Mask: TypeAlias = "Tensor | Mapping[str, Tensor | None] | None"


@dataclass(frozen=True, slots=True)
class LayerMasks:
    """The attention masks of one model, in the form that its code takes.

    `widths` has the number of tokens in the window or chunk of each kind of layer; None if the
    layer sees the whole text. For a model that takes one mask for all layers, the only key is "".
    `additive` is the dtype of a mask that the model adds to its attention scores; None for boolean
    masks.
    """

    widths: Mapping[str, int | None]
    additive: torch.dtype | None = None

    @classmethod
    def of_model(cls, model: Any) -> LayerMasks:
        """Return the masks that a model takes.

        A model whose kinds of layers include a window or a chunk takes a mask for each kind. Other
        models take one mask.
        """
        text, additive = model.config.get_text_config(), mask_dtype(model)
        kinds = set(getattr(text, "layer_types", None) or ())
        widths = {kind: getattr(text, key, None) for kind, key in WIDTHS.items() if kind in kinds}
        by_kind = cls({FULL: None, **widths}, additive)
        if not kinds:
            # A configuration may state a window that its model does not use.
            slides = getattr(text, "use_sliding_window", True)
            width = getattr(text, "sliding_window", None) if slides else None
            return cls({"": width}, additive)
        return by_kind if any(widths.values()) else cls({"": None}, additive)

    def by_layer(self, model: Any) -> list[int | None]:
        """Return the width of each layer's window or chunk; None if it sees the whole text."""
        text = model.config.get_text_config()
        if "" in self.widths:
            return [self.widths[""]] * layer_count(model)
        return [self.widths.get(kind) for kind in text.layer_types]

    def of(self, places: Tensor, seen: int, fresh: bool = False) -> Mask:
        """Return the mask of queries at `places` [rows, width] over the first `seen` slots.

        Slots hold keys in the order of their positions. The mask is a tensor [rows, 1, width,
        seen], or one such tensor for each kind of layer. If all queries are `fresh`, they stand in
        the slots themselves, and a kind of layer that sees all slots up to a query's own needs no
        mask.
        """
        kinds = [kind for kind in self.widths if not (fresh and self._is_plain(kind, seen))]
        masks: dict[str, Tensor | None] = {**dict.fromkeys(self.widths)}
        if kinds:
            slots = torch.arange(seen, device=places.device)
            masks |= self._of_kinds(kinds, slots <= places[:, :, None], places, slots)
        return masks.get("", masks)

    def within(self, seen: Tensor, places: Tensor, keys: Tensor) -> Mask:
        """Return the mask of each kind of layer.

        `seen` [rows, width, keys] is True for the keys that a query sees, unless a window or a
        chunk hides them. `places` are the positions of the queries, [rows, width]. `keys` are the
        positions of the keys, [keys] or [rows, 1, keys].
        """
        masks = self._of_kinds([*self.widths], seen, places, keys)
        return masks.get("", masks)

    def _of_kinds(
        self, kinds: Sequence[str], seen: Tensor, places: Tensor, keys: Tensor
    ) -> dict[str, Tensor]:
        # A window that is as wide as all keys hides none of them.
        return {
            kind: attended(seen & near(kind, width, places[:, :, None], keys), self.additive)
            if (width := self.widths[kind]) is not None and width < seen.shape[-1]
            else attended(seen, self.additive)
            for kind in kinds
        }

    def _is_plain(self, kind: str, seen: int) -> bool:
        """Return True if causal attention over `seen` slots is exact for a kind of layer.

        Only implementations that take boolean masks are causal without one.
        """
        width = self.widths[kind]
        return self.additive is None and (width is None or width > seen)


def unread_kinds(model: Any) -> str:
    """Return why a cache of keys and values alone is not enough for a model; "" if it is."""
    text = model.config.get_text_config()
    listed = getattr(text, "layer_types", None) or getattr(text, "attention_layers", None)
    kinds = sorted(set(listed or ()) - _READ)
    return f"it has layers of kind {', '.join(kinds)}" if kinds else ""


def layer_count(model: Any) -> int:
    """Return the number of layers that keep keys and values. Encoder layers do not count."""
    text = model.config.get_text_config()
    return int(getattr(text, "decoder_layers", None) or text.num_hidden_layers)


def near(kind: str, width: int, places: Tensor, keys: Tensor) -> Tensor:
    """Return which keys lie in the window of each place, or in its chunk."""
    chunked = kind == "chunked_attention"
    return keys >= (places // width * width if chunked else places - width + 1)


def attended(seen: Tensor, additive: torch.dtype | None = None) -> Tensor:
    """Return the mask [rows, 1, width, seen] of `seen` [rows, width, seen], as the model takes it.

    The mask is boolean, or with `additive` a number that is added to the attention scores.
    """
    mask = seen[:, None]
    if additive is None:
        return mask
    shut = torch.zeros(mask.shape, dtype=additive, device=mask.device)
    return shut.masked_fill(~mask, torch.finfo(additive).min)


def mask_dtype(model: Any) -> torch.dtype | None:
    """Return the dtype of a mask that the model adds to its attention scores; None for booleans."""
    # Only "sdpa" takes boolean masks. The other implementations add the mask to their scores.
    additive = getattr(model.config, "_attn_implementation", "sdpa") != "sdpa"
    return model.dtype if additive else None
