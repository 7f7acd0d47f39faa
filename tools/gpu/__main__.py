"""Measure formulas of four terms on a GPU, and print or write the tables.

Run as `make gpu`, or as `python -m tools.gpu`, on a machine with CUDA. The most important figures
are measured first. A measurement that would not end in time is left out, and the tables say so.
The script is tried on a CPU, in a minute, with `--device cpu --sizes 0.01 --requests 1 --tokens 8
--steady 24 --prompt 100 --rounds 1`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypeAlias

import torch
import transformers
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from marith.console import bars, counted, print_table, say, terminal
from tools.fixed_shapes import fixed_shapes
from tools.gpu.measurements import TERMS, Figures, Lengths, Subject, free_unused
from tools.gpu.section import PROMPTS, STEPS, Run, prompt_rows, steps_rows, write

Announce: TypeAlias = "Callable[[str], None]"
WITH_PROMPTS = 16  # requests


@dataclass(frozen=True, slots=True)
class Measurement:
    """Something that is measured of a subject: its kind, and the number of requests or rows."""

    kind: str
    count: str
    run: Callable[[Subject], None]


def measurements(requests: Sequence[int]) -> Iterator[Measurement]:
    """Yield the measurements, the most important first. Those of one kind become shorter."""
    most, *fewer = sorted(requests, reverse=True)
    yield _steps(most)
    prompts = min(WITH_PROMPTS, most)
    run = partial(Subject.measure_prompts, requests=prompts)
    yield Measurement("long prompts", counted(prompts, "request"), run)
    yield Measurement("first token", "1 request", Subject.measure_first_token)
    yield from map(_steps, fewer)
    for rows in sorted({rows for n in requests for rows in (n, TERMS * n)}, reverse=True):
        run = partial(Subject.measure_generate, rows=rows)
        yield Measurement("generate", counted(rows, "row"), run)


def _steps(requests: int) -> Measurement:
    run = partial(Subject.measure_steps, requests=requests)
    return Measurement("steps", counted(requests, "request"), run)


def measure(
    subjects: dict[float, Subject], requests: Sequence[int], end: float, announce: Announce
) -> list[str]:
    """Measure all subjects until `end`, and return what was left out.

    `end` is a moment of `time.monotonic`. A measurement begins if it would end in time, should it
    take as long as the last one of its kind. `announce` receives the name of each.
    """
    left_out, took = [], dict[tuple[str, float], float]()
    for one in measurements(requests):
        for size, subject in subjects.items():
            begun, label = time.monotonic(), f"{one.kind} of {one.count} ({size:g} B)"
            announce(label)
            if begun + took.get((one.kind, size), 0.0) > end:
                left_out.append(label)
                continue
            try:
                one.run(subject)
            # The figures of other measurements must not be lost, for example if memory runs out.
            except Exception as error:
                left_out.append(f"{label}, which failed with {type(error).__name__}: {error}")
            took[one.kind, size] = time.monotonic() - begun
            free_unused()
    return left_out


def main(
    device: Annotated[str, typer.Option(help="Where the models run.")] = "cuda",
    sizes: Annotated[
        list[float] | None, typer.Option(help="Billions of parameters; may be repeated.")
    ] = None,
    requests: Annotated[
        list[int] | None, typer.Option(min=1, help="Requests at once; may be repeated.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer.")] = 64,
    steady: Annotated[int, typer.Option(min=2, help="Tokens of a long answer.")] = 256,
    prompt: Annotated[int, typer.Option(min=1, help="Words of a long prompt.")] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 3,
    minutes: Annotated[float, typer.Option(min=0, help="What the run may take.")] = 6.0,
    page: Annotated[
        Path | None, typer.Option("--write", help="The page whose figures are replaced.")
    ] = None,
) -> None:
    """Print the tables, and write them into a page if `--write` names one.

    `--device cpu --sizes 0.01` tries the program without a GPU.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        problem = "torch finds no CUDA here; write --device cpu --sizes 0.01 to try the program"
        raise typer.BadParameter(problem, param_hint="--device")
    if steady <= tokens:
        problem = f"a long answer has more tokens than an answer: write a number above {tokens}"
        raise typer.BadParameter(problem, param_hint="--steady")
    transformers.utils.logging.disable_progress_bar()
    end = time.monotonic() + 60 * minutes
    lengths = Lengths(tokens, steady, prompt, rounds)
    console, chosen, counts = terminal(), sizes or [7.0, 1.0], requests or [1, 16, 64]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with ExitStack() as stack:
        if device == "cpu":
            stack.enter_context(fixed_shapes())
        progress = stack.enter_context(bars(*columns, TimeElapsedColumn()))
        task = progress.add_task("", total=len(chosen) * (1 + len([*measurements(counts)])))

        def announce(name: str) -> None:
            seconds = time.monotonic() - end + 60 * minutes
            say(console, [f"{seconds:5.0f} s  {name}"])
            progress.update(task, advance=1, description=name)

        subjects = {}
        for size in chosen:
            announce(f"making and loading {size:g} B")
            folder = Path(stack.enter_context(TemporaryDirectory()))
            subjects[size] = Subject(size, device, folder, lengths)
            stack.callback(subjects[size].close)
        left_out = measure(subjects, counts, end, announce)
        figures = [subject.figures for subject in subjects.values()]
    card = torch.cuda.get_device_name() if device.startswith("cuda") else device
    versions = f"torch {torch.__version__} and transformers {transformers.__version__}"
    day = f"{date.today():%-d %B %Y}"
    run = Run(card, versions, day, lengths, sorted(figures, key=_size), left_out)
    print_table(console, STEPS, steps_rows(run), left=())
    print_table(console, PROMPTS, prompt_rows(run), left=())
    say(console, [f"{card}; {versions}", *(f"left out: {one}" for one in left_out)])
    if page is not None:
        write(run, page)


def _size(figures: Figures) -> int:
    return figures.parameters


if __name__ == "__main__":
    typer.run(main)
