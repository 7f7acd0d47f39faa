"""Time a step of a number of rows, and its matrix products alone, which are its lower bound."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from benchmarks.engine_variants import timed_request
from benchmarks.rounds import Sample, Variant
from benchmarks.timed_model import TimedModel
from marith.console import counted
from marith.engine.engine import Engine
from marith.scoring.weights.checkpoint import threads_of
from marith.scoring.weights.layout.lean_modules import LinearPart
from marith.testing import passes_of

# Each of 16 requests runs for this many steps while the others begin and are timed.
FULL = 32


def products(engine: Engine, rows: int, count: int) -> Variant:
    """Time the matrix products of one position of each of `rows` rows, `count` times in turn.

    The products are those of the engine's own model, joined and laid out as in its steps. In a
    layer of experts, all experts count.
    """

    @torch.inference_mode()
    def run(turn: int) -> Sample:  # noqa: ARG001 (all rounds are alike)
        model = _laid_out(engine)
        with threads_of(model):
            work = linear_inputs(model, rows)
            # The first call of a layer may lay out its weights, so it is not timed.
            for layer, x in work:
                layer(x)
            started = time.perf_counter()
            for _ in range(count):
                for layer, x in work:
                    layer(x)
            return Sample(1e3 * (time.perf_counter() - started) / count)

    return Variant(f"products alone, {counted(rows, 'row')}", run)


def step(
    subject: TimedModel, engine: Engine, weights: Sequence[float], requests: int, tokens: int
) -> Variant:
    """Time a step of `requests` requests without drafts, while no request begins or ends.

    The rows of the step are the requests' terms. `host` is the time outside of the model's pass.
    """
    rows = requests * len(weights)
    name = f"step, {counted(rows, 'row')}"

    def run(turn: int) -> Sample:
        with _passes(engine) as passes:
            *others, last = (
                engine.submit(
                    timed_request(
                        subject.prompt(len(weights), f"{name} {turn} {i}"),
                        weights,
                        tokens + (full(requests) if i < requests - 1 else 0),
                        i,
                        speculation=None,
                    )
                )
                for i in range(requests)
            )
            # The iterators are kept, because a request ends with its iterator.
            readers = [iter(ticket) for ticket in others]
            for reader in readers:
                next(reader)
            last.result()
            return _timed(passes, time.perf_counter(), tokens - 1)

    return Variant(name, run, over=f"products alone, {counted(rows, 'row')}")


def full(requests: int) -> int:
    """Return how many steps the other requests run while all begin and the last one is timed."""
    return FULL * max(1, requests // 16)


def _timed(passes: Sequence[tuple[float, float]], end: float, steps: int) -> Sample:
    """Return the times of the last `steps` steps until `end`, from the end of a pass to the next.

    The times are those of passes, and not of a reader's tokens, because a reader may be late.
    """
    before, *own = [one for one in passes if one[1] <= end][-steps - 1 :]
    seconds = own[-1][1] - before[1]
    inside = sum(ended - begun for begun, ended in own)
    return Sample(1e3 * seconds / steps, host=1e3 * (seconds - inside) / steps)


@contextmanager
def _passes(engine: Engine) -> Iterator[list[tuple[float, float]]]:
    """Record when each pass in the block begins and ends, in seconds of `time.perf_counter`."""
    passes: list[tuple[float, float]] = []
    begun: list[float] = []

    def begin(*_: Any) -> None:
        begun.append(time.perf_counter())

    def end(*_: Any) -> None:
        # A pass that began before the recording is not counted.
        if begun:
            passes.append((begun.pop(), time.perf_counter()))

    passes_of_base: Any = passes_of(engine)
    reader: nn.Module = passes_of_base.reader
    hooks = reader.register_forward_pre_hook(begin), reader.register_forward_hook(end)
    try:
        yield passes
    finally:
        for hook in hooks:
            hook.remove()


def linear_inputs(model: nn.Module, rows: int) -> list[tuple[Any, Tensor]]:
    """Return every linear layer with an input [rows, 1, in_features], shared by equal widths."""
    layers = [
        module
        for module in model.modules()
        if isinstance(module, nn.Linear | Conv1D) and not isinstance(module, LinearPart)
    ]
    widths = [
        one.in_features if isinstance(one, nn.Linear) else one.weight.shape[0] for one in layers
    ]
    dtype: Any = getattr(model, "dtype", torch.float32)
    draw = torch.Generator().manual_seed(0)
    inputs = {width: torch.randn(rows, 1, width, generator=draw).to(dtype) for width in widths}
    return [(layer, inputs[width]) for layer, width in zip(layers, widths, strict=True)]


def _laid_out(engine: Engine) -> nn.Module:
    """Return the model that the passes of an engine run."""
    passes_of_base: Any = passes_of(engine)
    model: nn.Module = passes_of_base.model
    return model
