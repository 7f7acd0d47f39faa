"""Run on a CPU what a GPU runs: steps at fixed shapes, over tensors that seem to be on a device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from torch import Tensor

from marith import Engine
from marith.scoring import choose_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.rectangle.cuda_graphs import Captured

# These calls return values or a size to the host, so that the host waits for the device.
WAITING = {
    "__bool__", "__contains__", "__float__", "__index__", "__int__", "allclose", "cpu", "equal",
    "item", "masked_select", "nonzero", "numpy", "tolist", "unique",
}  # fmt: skip


class DeviceTensor(Tensor):
    """A tensor in main memory that stands for a tensor on a device.

    Results of functions of such tensors are such tensors, until they are copied to the host.
    `waits` counts the calls for which the host would wait for the device.
    """

    waits = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, and count it if the host would wait for the device."""
        name = getattr(func, "__name__", "")
        # The word "cpu" means the host here. The engine names the model's device otherwise.
        moved = name == "cpu" or (name == "to" and args[1:2] == ("cpu",))
        filled = name == "copy_" and not isinstance(args[0], cls)
        DeviceTensor.waits += moved or filled or name in WAITING
        call: Any = super().__torch_function__
        result = call(func, types, args, kwargs or {})
        return result.as_subclass(Tensor) if moved or filled else result


@contextmanager
def fixed_shapes() -> Iterator[None]:
    """Let engines that are loaded in the context run their steps at fixed shapes, as on a GPU.

    No tensor says in the context that it is on a CPU. So the engine computes as on other devices.
    """
    at_fixed_shapes = partial(choose_runner.start_runner, capture=True)
    with (
        mock.patch.object(choose_runner, "start_runner", at_fixed_shapes),
        mock.patch.object(Tensor, "is_cpu", new=False),
    ):
        yield


def runner_of(engine: Engine) -> CachedRunner:
    """Return the runner of an engine's base model, which must have a cache of keys and values."""
    runner = engine._registry.base.runner
    assert isinstance(runner, CachedRunner)
    return runner


def captured_of(engine: Engine) -> Captured:
    """Return the steps at fixed shapes of an engine, which must run at fixed shapes."""
    captured = runner_of(engine).captured
    assert isinstance(captured, Captured)
    return captured
