"""A tensor that seems to be on a device counts the waits of the host, and only these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from support.held_passes import tiny_engine
from torch import Tensor

from marith import Stop
from tools.fixed_shapes import DeviceTensor, fixed_shapes

ROWS = torch.tensor([[1.0, 3.0], [2.0, 0.5]])


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        (lambda rows: rows.log_softmax(-1).argmax(-1), 0),
        (lambda rows: torch.cat([rows, ROWS]).to(torch.device("cpu")), 0),
        (lambda rows: ROWS.tolist(), 0),
        (lambda rows: rows.argmax(-1).tolist(), 1),
        (lambda rows: rows.max().item(), 1),
        (lambda rows: bool(rows.isnan().any()), 1),
        (lambda rows: rows.cpu().tolist(), 1),
        (lambda rows: [rows.to("cpu").tolist(), rows.sum().tolist()], 2),
        (lambda rows: torch.empty(2, 2).copy_(rows).tolist(), 1),
    ],
)
def test_a_read_by_the_host_counts_once(call: Callable[[Tensor], Any], waits: int) -> None:
    before = DeviceTensor.waits
    got = call(ROWS.as_subclass(DeviceTensor))
    assert DeviceTensor.waits - before == waits
    want = call(ROWS)
    assert torch.equal(got.as_subclass(Tensor), want) if isinstance(got, Tensor) else got == want


def test_engines_that_are_loaded_in_the_context_run_their_steps_at_fixed_shapes() -> None:
    found = []
    for context in (fixed_shapes(), nullcontext()):
        with context, tiny_engine() as engine:
            runner: Any = engine._registry.base.runner
            found.append((runner.captured is not None, ROWS.is_cpu))
            assert engine.generate("a b", stop=Stop(3, ignore_eos=True)).tokens
    assert found == [(True, False), (False, True)]
