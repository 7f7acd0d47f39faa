"""Lay a loaded model out for decoding."""

from __future__ import annotations

from typing import Any

from marith.scoring.weights.footprint import amount
from marith.scoring.weights.lean_modules import make_lean
from marith.scoring.weights.packing import pack, packs
from marith.scoring.weights.shared_weights import nbytes, weights


def lay_out(model: Any) -> None:
    """Make the modules of a model lean and pack its weights, in place."""
    make_lean(model)
    pack(model)


def lay_out_copy(model: Any, original: Any) -> str:
    """Lay out a model that shares the weights of `original`, which stays as it is.

    Weights that are packed are copied. On a device where none are packed the model stays as it is.
    Returns in words how much is copied.
    """
    if not packs(model):
        return ""
    lay_out(model)
    shared = set(map(id, weights(original)))
    copied = nbytes(one for one in weights(model) if id(one) not in shared)
    return f"{amount(copied)} copied" if copied else ""
