"""Lay a loaded model out for decoding, and say what was done."""

from __future__ import annotations

from typing import Any

from marith.scoring.checkpoints.footprint import amount
from marith.scoring.checkpoints.shared_weights import nbytes, weights
from marith.scoring.layouts.fused_layer import FusedLayer
from marith.scoring.layouts.fusing import fuse
from marith.scoring.layouts.packing import pack, packs


def lay_out(model: Any) -> str:
    """Fuse and pack, in place, what can be. Returns in words what was done."""
    fuse(model)
    pack(model)
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
    fused = sum(isinstance(module, FusedLayer) for module in model.modules())
    return f"{fused} of {layers} layers fused"


def lay_out_copy(model: Any, original: Any) -> str:
    """The same for a model that shares the weights of a caller's, which stay as they are.

    What is laid out is copied. A GPU gains little by it, and a copy would be a second model: there
    the weights stay shared. Returns in words what was fused, and what the copy takes.
    """
    if not packs(model):
        return "as its caller has it"
    done, shared = lay_out(model), set(map(id, weights(original)))
    copied = nbytes(one for one in weights(model) if id(one) not in shared)
    return f"{done}, {amount(copied)} copied" if copied else done
