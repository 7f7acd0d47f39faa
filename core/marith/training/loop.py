"""From settings to a classifier: read, check, load, learn, save, judge."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from marith.errors import unreadable
from marith.training import figures
from marith.training.base import device_of, load
from marith.training.checkpointing import Folder, Standing
from marith.training.data import encoded_texts, splits
from marith.training.data.labelled_texts import labelled
from marith.training.optimisation import Optimisation
from marith.training.report import Line, Report
from marith.training.settings import Settings

_MEMORY = 0.98  # of the moving mean of losses, for each step


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was taken, the first being 1, and its loss."""

    number: int
    of: int
    loss: float


def train(settings: Settings, tell: Callable[[Step], None] | None = None) -> Report:
    """Fine-tune a classifier on prefixes and leave it in `settings.out`, with its report.

    What was begun there with the same settings goes on; what was finished is only reported.
    `tell` hears of each step. Progress is shown on standard error. Raises RequestError for data
    and settings that do not serve, before anything is loaded, and ModelError.
    """
    device = device_of(settings.device)
    rows = labelled(settings.data, settings.text_column, settings.label_column)
    labels = splits.class_names(rows)
    split = splits.split(rows, settings.held_out, settings.seed)
    folder = Folder(settings.out)
    identity = settings.identity(_digest(settings.data))
    folder.check(identity)
    finished = folder.report()
    if finished is None:
        with _drawing(settings.seed, device):
            base = load(settings, labels, device)
            read = encoded_texts.encode(base, labels, split, settings.data)
            course = Optimisation(base, read, settings)
            standing = _learn(course, folder, identity, tell)
            base.model.save_pretrained(settings.out)
            base.tokenizer.save_pretrained(settings.out)
            finished = _report(course, identity, standing, _judge(course))
        finished.write(settings.out)
    folder.clear()
    return finished


def _learn(
    course: Optimisation,
    folder: Folder,
    identity: Mapping[str, Any],
    tell: Callable[[Step], None] | None,
) -> Standing:
    """Take every step that is still to be taken, and keep a checkpoint of the last one too."""
    standing = folder.restore(course.base.model, course.optimiser)
    with _bars() as bars:
        for notice in _notices(course):
            bars.console.print(notice, highlight=False, markup=False, soft_wrap=True)
        bar = bars.add_task("training", total=course.steps, completed=standing.step, loss="")
        for step, batch in course.batches(standing.step):
            start = time.monotonic()
            loss = course.take(step, batch)
            mean = loss if standing.loss is None else _MEMORY * standing.loss + (1 - _MEMORY) * loss
            standing = Standing(step + 1, mean, standing.seconds + time.monotonic() - start)
            bars.update(bar, completed=standing.step, loss=f"loss {mean:.4f}")
            if standing.step % course.settings.save_every == 0 or standing.step == course.steps:
                folder.save(course.base.model, course.optimiser, standing, identity)
            if tell is not None:
                tell(Step(standing.step, course.steps, loss))
    return standing


def _judge(course: Optimisation) -> tuple[Line, ...]:
    side, marks = course.material.held_out, course.material.marks
    total = len(figures.lengths(side.texts)) * len(side.texts)
    with _bars() as bars:
        bar = bars.add_task("held out", total=total, loss="")

        def tell(count: int) -> None:
            bars.advance(bar, count)

        lines = figures.by_length(course.base, marks, side, course.settings.balance, tell)
        return tuple(lines)


def _report(
    course: Optimisation, identity: Mapping[str, Any], standing: Standing, lines: tuple[Line, ...]
) -> Report:
    """All that a course came to, its figures being `lines`."""
    base, read, names = course.base, course.material, course.base.head.names
    return Report(
        base=course.settings.base,
        settings=identity,
        learned=read.learned.counts(names),
        held_out=read.held_out.counts(names),
        epoch_size=course.epoch_size,
        limit=base.limit,
        cut=read.cut,
        every_prefix=course.every_prefix,
        steps=course.steps,
        loss=standing.loss or 0.0,
        seconds=round(standing.seconds, 2),
        notices=_notices(course),
        lines=lines,
    )


def _notices(course: Optimisation) -> tuple[str, ...]:
    """What one should know of a training that is otherwise as it was asked for."""
    base, read = course.base, course.material
    told = [] if base.head.notice is None else [base.head.notice]
    if read.cut:
        total = len(read.learned.texts) + len(read.held_out.texts)
        told.append(
            f"{read.cut} of {total} texts are longer than {base.limit} tokens and are read so far"
        )
    names = base.head.names
    numbers = [int(name) for name in names if name.lstrip("-").isdecimal()]
    if len(numbers) == len(names) and numbers != list(range(len(names))):
        told.append(
            f"a formula counts classes from 0: write label={names[0]!r}, in quotes, for the first"
        )
    return tuple(told)


def _digest(path: Path) -> str:
    """What stands for the contents of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None


@contextmanager
def _drawing(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's random numbers are ours for a while, and then again the caller's."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _bars() -> Progress:
    told = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    loss = TextColumn("{task.fields[loss]}")
    return Progress(*told, loss, TimeRemainingColumn(), console=Console(stderr=True))
