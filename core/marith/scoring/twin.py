"""A second tree of modules over the same weights, to be changed without touching the first."""

from __future__ import annotations

import copy
from itertools import chain
from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def changes(model: nn.Module) -> int:
    """How often the weights have been written to in place, as far as torch keeps count."""
    tensors = chain(model.parameters(), model.buffers())
    return sum(tensor._version for tensor in tensors if not tensor.is_inference())


def twin(model: Model) -> Model:
    """The model again: modules of its own, every parameter and buffer shared."""
    shared = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in shared})
