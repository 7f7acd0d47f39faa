"""Train a classifier from settings: read, check, load, learn, measure, save."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers.utils import CONFIG_NAME

from marith.console import bars
from marith.scoring.weights.placing import device_for
from marith.training import encoded_texts, labelled_texts
from marith.training.base import Base, load
from marith.training.labelled_texts import labelled
from marith.training.optimisation import Optimisation
from marith.training.report import REPORT, Line, Report, by_length
from marith.training.settings import Settings

# The share of the old moving mean of the losses that each step keeps.
_MEMORY = 0.98


def train(settings: Settings) -> Report:
    """Fine-tune a classifier on prefixes. Save it, with its report, in `settings.out`.

    Progress is shown on standard error. Raises ModelError, or RequestError for unsuitable data or
    settings, in most cases before the model is loaded.
    """
    device = device_for(settings.device)
    rows = labelled(settings.data, settings.text_column, settings.label_column)
    labels = labelled_texts.class_names(rows)
    split = labelled_texts.split(rows, settings.held_out, settings.seed)
    with _drawing(settings.seed, device):
        base = load(settings, labels, device)
        data = encoded_texts.encode(base, labels, split, settings.data)
        settings.out.mkdir(parents=True, exist_ok=True)
        optimisation = Optimisation(base, data, settings)
        loss, seconds = _learn(optimisation)
        lines = by_length(base, data.special_tokens, data.held_out, settings.balance)
    report = _report(optimisation, loss, seconds, lines)
    _save(base, report, settings.out)
    return report


def _learn(optimisation: Optimisation) -> tuple[float, float]:
    """Take every step. Return the final moving mean of the losses, and the seconds taken."""
    mean, steps, began = 0.0, optimisation.steps, time.monotonic()
    with _bars() as bars:
        if optimisation.settings.rate is None:
            bars.console.print(f"the rate is {optimisation.rate:g}, by the size of the base")
        for notice in _notices(optimisation):
            bars.console.print(notice, highlight=False, markup=False, soft_wrap=True)
        bar = bars.add_task("training", total=steps, loss="")
        for step, batch in enumerate(optimisation.batches()):
            loss = optimisation.take(step, batch)
            mean = _MEMORY * mean + (1 - _MEMORY) * loss if step else loss
            bars.update(bar, completed=step + 1, loss=f"loss {mean:.4f}")
            if not bars.console.is_interactive and _has_line(step + 1, steps):
                bars.console.print(f"step {step + 1} of {steps}, loss {mean:.4f}")
    return mean, time.monotonic() - began


def _save(base: Base, report: Report, out: Path) -> None:
    """Save the classifier in `out`.

    The configuration is written last, so that a partly written model cannot be loaded.
    """
    with TemporaryDirectory(dir=out) as unfinished:
        folder = Path(unfinished)
        base.model.save_pretrained(folder)
        base.tokenizer.save_pretrained(folder)
        (folder / REPORT).write_text(report.to_json() + "\n", encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name == CONFIG_NAME):
            os.replace(file, out / file.name)


def _has_line(step: int, steps: int) -> bool:
    """Return True if a step prints a line: the first step, and 20 evenly spaced steps."""
    return step == 1 or step * 20 // steps > (step - 1) * 20 // steps


def _report(
    optimisation: Optimisation, loss: float, seconds: float, lines: tuple[Line, ...]
) -> Report:
    """Return the report of a training. `lines` are the rows of its table."""
    base, data, names = optimisation.base, optimisation.data, optimisation.base.head.names
    return Report(
        settings=optimisation.settings,
        learned=data.learned.counts(names),
        held_out=data.held_out.counts(names),
        epoch_size=optimisation.epoch_size,
        limit=base.limit,
        cut=data.cut,
        every_prefix=optimisation.every_prefix,
        steps=optimisation.steps,
        loss=loss,
        seconds=round(seconds, 2),
        notices=_notices(optimisation),
        lines=lines,
    )


def _notices(optimisation: Optimisation) -> tuple[str, ...]:
    """Return notices about the head, truncated texts, and classes whose names are numbers."""
    base, data = optimisation.base, optimisation.data
    notices = [] if base.head.notice is None else [base.head.notice]
    if data.cut:
        total = len(data.learned.texts) + len(data.held_out.texts)
        notices.append(
            f"{data.cut} of {total} texts are longer than {base.limit} tokens and are truncated"
        )
    names = base.head.names
    numbers = [int(name) for name in names if name.lstrip("-").isdecimal()]
    if len(numbers) == len(names) and numbers != list(range(len(names))):
        notices.append(
            f"a formula counts classes from 0: write label={names[0]!r}, in quotes, for the first"
        )
    return tuple(notices)


@contextmanager
def _drawing(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's random numbers for a block, and restore the caller's afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _bars() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    loss = TextColumn("{task.fields[loss]}")
    return bars(*columns, loss, TimeRemainingColumn(), everywhere=True)
