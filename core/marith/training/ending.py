"""What a finished training leaves beside its weights: the report, and what one should know."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marith.training.checkpointing import REPORT, Standing
from marith.training.course import Course
from marith.training.report import Line, Report


def report_of(
    course: Course, identity: Mapping[str, Any], standing: Standing, lines: tuple[Line, ...]
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
        notices=notices(course),
        lines=lines,
    )


def notices(course: Course) -> tuple[str, ...]:
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


def write(report: Report, out: Path) -> None:
    """Leave the report in three forms. Its JSON comes last and at once, since it means the end."""
    (out / "report.csv").write_text(report.to_csv(), encoding="utf-8")
    (out / "report.md").write_text(report.to_markdown(), encoding="utf-8")
    unfinished = out / f"{REPORT}.saving"
    unfinished.write_text(report.to_json() + "\n", encoding="utf-8")
    os.replace(unfinished, out / REPORT)
