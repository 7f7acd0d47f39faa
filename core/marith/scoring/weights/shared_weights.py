"""Copy a tree of modules without its weights, so that changes do not touch the original."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)
# Models of these types write to their weights: RWKV rescales its weights in its first pass.
_WRITE_TO_WEIGHTS = {"rwkv"}


def weights(model: nn.Module) -> tuple[Tensor, ...]:
    """Return every parameter of the model once. This walks over all modules.

    Buffers are not included, because some models compute their buffers again for each text.
    """
    return tuple(model.parameters())


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Return the number of bytes of the tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def shared_copy(model: Model) -> Model:
    """Return a copy of the model that shares its parameters and persistent buffers.

    The copy has its own modules and computed buffers.
    """
    # deepcopy takes the tensors of this table as they are, and copies everything else.
    return copy.deepcopy(model, {id(tensor): tensor for tensor in _stored(model)})


def attending_by(model: Any, function: str) -> Any:
    """Return a shared copy that computes attention by the function with this name in transformers.

    The model itself stays as it is, because other threads may run it at any time.
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
    """Return the tensors that a checkpoint stores: parameters and persistent buffers."""
    kept = [*model.parameters(), *model.state_dict(keep_vars=True).values()]
    return [tensor for tensor in kept if isinstance(tensor, Tensor)]
