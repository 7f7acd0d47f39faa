"""A second tree of modules over the same weights, to be changed without touching the first."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)


def weights(model: nn.Module) -> tuple[Tensor, ...]:
    """Every parameter and buffer of the model, each once; found by a walk over all modules."""
    return tuple(chain(model.parameters(), model.buffers()))


def changes(tensors: Iterable[Tensor]) -> int:
    """How often the tensors have been written to in place, as far as torch keeps count."""
    return sum(tensor._version for tensor in tensors if not tensor.is_inference())


def nbytes(tensors: Iterable[Tensor]) -> int:
    """What the tensors weigh."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def twin(model: Model) -> Model:
    """The model again: modules of its own, every parameter and buffer shared."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in weights(model)})
