"""From settings to a classifier: read, check, load, learn, save, judge."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from marith.errors import unreadable
from marith.scoring.weights.placing import device_for
from marith.showing import bars
from marith.training import encoded_texts, labelled_texts
from marith.training.base import load
from marith.training.checkpointing import TrainingFolder, TrainingProgress
from marith.training.labelled_texts import labelled
from marith.training.optimisation import Optimisation
from marith.training.report import Line, Report, by_length
from marith.training.settings import Settings

_MEMORY = 0.98  # of the moving mean of losses, for each step


def train(settings: Settings) -> Report:
    """Fine-tune a classifier on prefixes and leave it in `settings.out`, with its report.

    What was begun there with the same settings goes on; what was finished is only reported.
    Progress is shown on standard error. Raises RequestError for data and settings that do not
    serve, before anything is loaded, and ModelError.
    """
    device = device_for(settings.device)
    rows = labelled(settings.data, settings.text_column, settings.label_column)
    labels = labelled_texts.class_names(rows)
    split = labelled_texts.split(rows, settings.held_out, settings.seed)
    folder = TrainingFolder(settings.out)
    identity = settings.identity(_digest(settings.data))
    folder.check(identity)
    finished = folder.report()
    if finished is None:
        with _drawing(settings.seed, device):
            base = load(settings, labels, device)
            data = encoded_texts.encode(base, labels, split, settings.data)
            optimisation = Optimisation(base, data, settings)
            so_far = _learn(optimisation, folder, identity)
            base.model.save_pretrained(settings.out)
            base.tokenizer.save_pretrained(settings.out)
            lines = by_length(base, data.special_tokens, data.held_out, settings.balance)
            finished = _report(optimisation, identity, so_far, lines)
        finished.write(settings.out)
    folder.clear()
    return finished


def _learn(
    optimisation: Optimisation, folder: TrainingFolder, identity: Mapping[str, Any]
) -> TrainingProgress:
    """Take every step that is still to be taken, and keep a checkpoint of the last one too."""
    steps, every = optimisation.steps, optimisation.settings.save_every
    so_far = folder.restore(optimisation.base.model, optimisation.optimiser)
    with _bars() as bars:
        if optimisation.settings.rate is None:
            bars.console.print(f"the rate is {optimisation.rate:g}, by the size of the base")
        for notice in _notices(optimisation):
            bars.console.print(notice, highlight=False, markup=False, soft_wrap=True)
        bar = bars.add_task("training", total=steps, completed=so_far.step, loss="")
        for step, batch in optimisation.batches(so_far.step):
            start = time.monotonic()
            loss = optimisation.take(step, batch)
            mean = loss if so_far.loss is None else _MEMORY * so_far.loss + (1 - _MEMORY) * loss
            so_far = TrainingProgress(step + 1, mean, so_far.seconds + time.monotonic() - start)
            bars.update(bar, completed=so_far.step, loss=f"loss {mean:.4f}")
            if not bars.console.is_interactive and _has_line(so_far.step, steps):
                bars.console.print(f"step {so_far.step} of {steps}, loss {mean:.4f}")
            if so_far.step % every == 0 or so_far.step == steps:
                folder.save(optimisation.base.model, optimisation.optimiser, so_far, identity)
    return so_far


def _has_line(step: int, steps: int) -> bool:
    """Whether a step has a line of its own where no bar moves: the first, and each twentieth."""
    return step == 1 or step * 20 // steps > (step - 1) * 20 // steps


def _report(
    optimisation: Optimisation,
    identity: Mapping[str, Any],
    so_far: TrainingProgress,
    lines: tuple[Line, ...],
) -> Report:
    """All that an optimisation came to, its figures being `lines`."""
    base, data, names = optimisation.base, optimisation.data, optimisation.base.head.names
    return Report(
        base=optimisation.settings.base,
        settings=identity,
        learned=data.learned.counts(names),
        held_out=data.held_out.counts(names),
        epoch_size=optimisation.epoch_size,
        limit=base.limit,
        cut=data.cut,
        every_prefix=optimisation.every_prefix,
        steps=optimisation.steps,
        loss=so_far.loss or 0.0,
        seconds=round(so_far.seconds, 2),
        notices=_notices(optimisation),
        lines=lines,
    )


def _notices(optimisation: Optimisation) -> tuple[str, ...]:
    """Notices about a training that otherwise ran as configured."""
    base, data = optimisation.base, optimisation.data
    notices = [] if base.head.notice is None else [base.head.notice]
    if data.cut:
        total = len(data.learned.texts) + len(data.held_out.texts)
        notices.append(
            f"{data.cut} of {total} texts are longer than {base.limit} tokens and are read so far"
        )
    names = base.head.names
    numbers = [int(name) for name in names if name.lstrip("-").isdecimal()]
    if len(numbers) == len(names) and numbers != list(range(len(names))):
        notices.append(
            f"a formula counts classes from 0: write label={names[0]!r}, in quotes, for the first"
        )
    return tuple(notices)


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
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    loss = TextColumn("{task.fields[loss]}")
    return bars(*columns, loss, TimeRemainingColumn(), everywhere=True)
