"""A second tree of modules over the same weights, to be changed without touching the first."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)
_WRITE_TO_WEIGHTS = {"rwkv"}  # which rescales its weights in its first pass


def weights(model: nn.Module) -> tuple[Tensor, ...]:
    """Every parameter of the model, each once; found by a walk over all modules.

    Buffers are none: some models compute theirs anew, text by text.
    """
    return tuple(model.parameters())


def nbytes(tensors: Iterable[Tensor]) -> int:
    """What the tensors weigh."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def shared_copy(model: Model) -> Model:
    """The model again: modules and computed buffers of its own, all that is stored shared."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in _stored(model)})


def attending_by(model: Any, function: str) -> Any:
    """A shared copy that computes attention by a function that transformers knows by this name.

    The model itself stays as it is: other threads may run it at any time.
    """
    tree = shared_copy(model).eval()
    tree.config.get_text_config()._attn_implementation = function
    return tree


def independent(model: Any) -> Any:
    """Return a copy whose passes never write to the model's weights.

    The copy shares the weights, unless the model writes to its weights in a pass.
    """
    if model.config.model_type in _WRITE_TO_WEIGHTS:
        return copy.deepcopy(model).eval()
    return shared_copy(model).eval()


def _stored(model: nn.Module) -> list[Tensor]:
    """What a checkpoint holds: parameters and persistent buffers."""
    kept = [*model.parameters(), *model.state_dict(keep_vars=True).values()]
    return [tensor for tensor in kept if isinstance(tensor, Tensor)]
