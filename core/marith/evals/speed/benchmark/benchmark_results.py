"""What was measured comes to: medians, ratios and the share of the floor."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch
import transformers

from marith.evals.speed.benchmark.bandwidth import Floor
from marith.evals.speed.benchmark.rounds import Sample


@dataclass(frozen=True, slots=True)
class Result:
    """One variant's medians over the rounds, in milliseconds.

    `ratio` is its time over that of the first variant of its section; `samples` are its times
    in the order of the rounds. `floor_share` is the time in which memory gives every weight once,
    over the time of a token: 1 is as fast as it gets with one pass a token.
    """

    section: str
    name: str
    milliseconds: float
    ratio: float
    samples: tuple[float, ...]
    first_token: float | None = None
    passes_per_token: float | None = None
    floor_share: float | None = None

    @property
    def per_second(self) -> float:
        """How many there are in a second."""
        return 1e3 / self.milliseconds


@dataclass(frozen=True, slots=True)
class Machine:
    """What it ran on."""

    processor: str
    threads: int
    python: str
    torch: str
    transformers: str

    @classmethod
    def here(cls) -> Machine:
        """This one."""
        return cls(
            platform.machine(),
            torch.get_num_threads(),
            platform.python_version(),
            str(torch.__version__),
            transformers.__version__,
        )


def results(
    section: str, samples: Mapping[str, Sequence[Sample]], floor: Floor | None = None
) -> list[Result]:
    """Each variant's medians; the first variant is what the others are measured by."""
    times = {name: tuple(s.milliseconds for s in taken) for name, taken in samples.items()}
    medians = {name: median(taken) for name, taken in times.items()}
    base = next(iter(medians.values()))
    return [
        Result(
            section,
            name,
            medians[name],
            medians[name] / base,
            times[name],
            _median_of([sample.first_token for sample in taken]),
            _median_of([sample.passes_per_token for sample in taken]),
            floor.milliseconds / medians[name] if floor else None,
        )
        for name, taken in samples.items()
    ]


def _median_of(values: Sequence[float | None]) -> float | None:
    """The median of what was measured; None where nothing was."""
    present = [value for value in values if value is not None]
    return median(present) if present else None
