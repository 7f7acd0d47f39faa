"""What the engine's steps do with tensors: watched on the engine's own thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from marith.engine import loop


class MostRows(TorchDispatchMode):
    """Remembers how many rows of a width the largest tensor has that is made within."""

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
WAITING = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__")


class Waits(TorchFunctionMode):
    """Counts the calls within that wait for a device: what they return is on the host.

    No tensor says that it is on a CPU, so that the calls are those of another device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in WAITING
        return False if func == _IS_CPU else func(*args, **(kwargs or {}))


def watch_steps(
    monkeypatch: pytest.MonkeyPatch, watching: Callable[[], AbstractContextManager[Any]]
) -> None:
    """From here on each step runs within what `watching` returns."""
    step = loop.step

    def watched(*given: Any) -> None:
        with watching():
            step(*given)

    monkeypatch.setattr(loop, "step", watched)
