"""A second tree of modules over the same weights, to be changed without touching the first."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

Model = TypeVar("Model", bound=nn.Module)


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


def independent(model: Model, run: Callable[[Model], object]) -> Model:
    """A copy that never writes to the model's weights when it is `run`.

    It shares them, but for a model that would write to them, such as RWKV, which rescales its
    weights in its first pass: its copy has weights of its own.
    """
    second = shared_copy(model).eval()
    guard = _Guard(_stored(second))
    try:
        with guard:
            run(second)
    except Exception:
        if not guard.stopped:
            raise
        second = copy.deepcopy(model).eval()
        run(second)
    return second


def _stored(model: nn.Module) -> list[Tensor]:
    """What a checkpoint holds: parameters and persistent buffers."""
    kept = [*model.parameters(), *model.state_dict(keep_vars=True).values()]
    return [tensor for tensor in kept if isinstance(tensor, Tensor)]


class _Guard(TorchDispatchMode):
    """Stops an operation before it writes to one of these tensors, or to a view of one."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._guarded = {_storage(tensor) for tensor in tensors} - {None}
        self.stopped = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func._schema.is_mutable:
            for i, argument in enumerate(func._schema.arguments):
                value = args[i] if i < len(args) else given.get(argument.name)
                if argument.is_write and self._has(value):
                    self.stopped = True
                    raise RuntimeError(f"{func} writes to a weight of the model")
        return func(*args, **given)

    def _has(self, value: object) -> bool:
        values = value if isinstance(value, (list, tuple)) else [value]
        return any(isinstance(v, Tensor) and _storage(v) in self._guarded for v in values)


def _storage(tensor: Tensor) -> int | None:
    """Where the tensor's numbers lie; None for one without a storage of its own kind."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (NotImplementedError, RuntimeError):
        return None
