"""Watch the tensors of the engine's steps, on the engine's own thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from marith.engine import loop
from tools.fixed_shapes import WAITING


class MostRows(TorchDispatchMode):
    """Remembers the most rows of a tensor of a given width that is made in the context."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.rows = width, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, Tensor) and tensor.shape[-1:] == (self.width,):
                self.rows = max(self.rows, tensor.numel() // self.width)
        return out


_IS_CPU = Tensor.is_cpu.__get__


class Waits(TorchFunctionMode):
    """Counts the calls in the context that wait for a device: they return a value on the host.

    No tensor says that it is on a CPU, so that the calls are those of another device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in WAITING
        return False if func == _IS_CPU else func(*args, **(kwargs or {}))


class Uploads(TorchFunctionMode):
    """Counts the copies to a device in the context for which the host waits."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        onto = [*args[1:], named.get("device")]
        moves = getattr(func, "__name__", "") in ("to", "cuda", "tensor", "as_tensor")
        if moves and any(isinstance(one, torch.device) for one in onto):
            self.count += not named.get("non_blocking", False)
        return func(*args, **named)


def watch_steps(
    monkeypatch: pytest.MonkeyPatch, watching: Callable[[], AbstractContextManager[Any]]
) -> None:
    """Run each later step within the context that `watching` returns."""
    step = loop.step

    def watched(*given: Any, **options: Any) -> None:
        with watching():
            step(*given, **options)

    monkeypatch.setattr(loop, "step", watched)
