"""Print what a step does outside the model in the shape that a GPU runs, without a GPU.

Run as `make way`, or as `python -m tools.step_counts`. A step is one token of every request, over
the free model of `tools.host_time`. The passes at fixed shapes cost nothing and are not counted: on
a GPU they are replays of a graph. The table shows the operations of torch, how many of them copy,
how often the host waits for the device, and the process's own time. Rows are exchanged while
requests of different lengths follow one another: the table shows how many for each lane that
begins.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Annotated, Any
from unittest import mock

import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from marith import Engine
from marith.engine.step import step
from marith.scoring.passes.rectangle.cuda_graphs import Captured
from tools.fixed_shapes import DeviceTensor, captured_of, fixed_shapes, runner_of
from tools.host_time import LONG, ROUNDS, SHORT, engine_of, host_time, run_together

# The numbers of requests, with the numbers of terms of their formulas.
SIZES = ((1, 1), (16, 1), (64, 1), (128, 1), (1, 4), (16, 4), (64, 4))
VOCAB = 256
COPIES = ("_to_copy", "clone", "copy_")
LENGTHS = range(SHORT, LONG, 5)  # of the requests that follow one another


class FreeGraphs(Captured):
    """Passes at fixed shapes that cost nothing: each shape is computed once, like a graph.

    The logits of `FreeModel` never change, so the first ones stay valid. With `on_device`, they are
    tensors that seem to be on a device.
    """

    def __init__(self, *given: Any, on_device: bool) -> None:
        super().__init__(*given)
        self._kind = DeviceTensor if on_device else Tensor

    def _pass(self, step: Any) -> Tensor:
        """Return the logits of the first pass of this shape."""
        if step.logits is None:
            return super()._pass(step).as_subclass(self._kind)
        logits: Tensor = step.logits
        return logits


class Operations(TorchDispatchMode):
    """Counts the operations of torch in the context, by their names."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation, and run it."""
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Operations of torch in one step, those among them that copy, and waits for the device."""

    operations: int
    copies: int
    waits: int


@contextmanager
def free_engine(
    requests: int, terms: int, on_device: bool = False, vocab: int = VOCAB
) -> Iterator[Engine]:
    """Return an engine over the free model, whose steps run at fixed shapes."""
    with fixed_shapes(), engine_of(vocab, requests, terms) as engine:
        usual = captured_of(engine)
        free = FreeGraphs(usual.adapted, usual.cache, usual.masks, on_device=on_device)
        runner_of(engine).captured = free
        yield engine


def count_steps(requests: int, terms: int, vocab: int = VOCAB) -> list[StepCounts]:
    """Return the counts of the steps in which all requests take part, without the first steps."""
    counts: list[StepCounts] = []

    def counted(turns: Sequence[Any], *given: Any, **options: Any) -> None:
        waits = DeviceTensor.waits
        with Operations() as operations:
            step(turns, *given, **options)
        if len(turns) == requests:
            found = operations.counts
            # A result becomes a tensor of a class by an alias, which costs nothing on a device.
            found.pop("alias", None)
            copies = sum(found[name] for name in COPIES)
            counts.append(StepCounts(found.total(), copies, DeviceTensor.waits - waits))

    watched = mock.patch("marith.engine.loop.step", counted)
    with free_engine(requests, terms, True, vocab) as engine, watched:
        run_together(engine, None, terms, [LONG] * requests)
    return counts[SHORT:]


def count_swaps(requests: int, terms: int) -> float:
    """Return how many rows are exchanged for each lane that begins, as requests join and end."""
    swaps = 0
    with free_engine(requests, terms) as engine:
        cache = captured_of(engine).cache
        swap = cache.swap

        def counted(*given: Any) -> None:
            nonlocal swaps
            swaps += 1
            swap(*given)

        with mock.patch.object(cache, "swap", counted):
            run_together(engine, None, terms, [*islice(cycle(LENGTHS), 3 * requests)])
    return swaps / (3 * requests * terms)


def median(counts: Sequence[StepCounts]) -> StepCounts:
    """Return the median of each count."""
    columns = zip(*((one.operations, one.copies, one.waits) for one in counts), strict=True)
    return StepCounts(*(int(statistics.median(column)) for column in columns))


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = ROUNDS,
    vocab: Annotated[int, typer.Option(min=3, help="The number of words.")] = VOCAB,
) -> None:
    """Print the table. Times are medians, with the minimum and the maximum of the rounds."""
    columns = ("operations", "copies", "waits", "swaps a lane", "µs a request and token")
    table = Table("requests × terms", *columns, title="a step at fixed shapes, outside the model")
    for requests, terms in SIZES:
        counts = median(count_steps(requests, terms, vocab))
        swaps = count_swaps(requests, terms)
        with free_engine(requests, terms, vocab=vocab) as engine:
            figure = host_time(engine, None, requests, rounds, time.process_time, terms)
        numbers = counts.operations, counts.copies, counts.waits, f"{swaps:.2f}", figure
        table.add_row(f"{requests} × {terms}", *map(str, numbers))
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
