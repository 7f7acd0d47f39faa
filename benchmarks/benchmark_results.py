"""The results of measurements: medians, ratios and the share of the floor."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch
import transformers

from benchmarks.rounds import Sample

FLAGS = ("avx2", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8")
# Fields that not every sample has, in their order.
_OPTIONAL = "acceptance", "host", "tokens_bytes", "resident"


@dataclass(frozen=True, slots=True)
class Result:
    """The medians of one variant over the rounds, in milliseconds.

    `ratio` is its time divided by the time of the variant that it is compared with: the first of
    its section, unless it names another. `samples` are its times in the order of the rounds.
    `floor_share` is the time in which memory gives every weight once, divided by the time of a
    token: 1 is the limit for one pass per token. The last four fields are as in `Sample`.
    """

    section: str
    name: str
    milliseconds: float
    ratio: float
    samples: tuple[float, ...]
    first_token: float | None = None
    passes_per_token: float | None = None
    floor_share: float | None = None
    acceptance: float | None = None
    host: float | None = None
    tokens_bytes: float | None = None
    resident: float | None = None

    @property
    def per_second(self) -> float:
        """The number per second."""
        return 1e3 / self.milliseconds


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a run; `flags` are the processor's flags among FLAGS."""

    processor: str
    threads: int
    python: str
    torch: str
    transformers: str
    flags: tuple[str, ...] = ()

    @classmethod
    def here(cls) -> Machine:
        """Return this machine."""
        return cls(
            torch.cpu.get_capabilities().get("cpu_name") or platform.machine(),
            torch.get_num_threads(),
            platform.python_version(),
            str(torch.__version__),
            transformers.__version__,
            tuple(flag for flag in FLAGS if torch.cpu.get_capabilities().get(flag)),
        )


def results(
    section: str,
    samples: Mapping[str, Sequence[Sample]],
    over: Mapping[str, str] | None = None,
) -> list[Result]:
    """Return the medians of each variant. `over` maps a variant to the variant it is compared with.

    All other variants are compared with the first.
    """
    times = {name: tuple(s.milliseconds for s in taken) for name, taken in samples.items()}
    medians = {name: median(taken) for name, taken in times.items()}
    first, over = next(iter(medians)), over or {}
    return [
        Result(
            section,
            name,
            medians[name],
            medians[name] / medians[over.get(name, first)],
            times[name],
            _median_of([sample.first_token for sample in taken]),
            _median_of([sample.passes_per_token for sample in taken]),
            None,
            *(_median_of([getattr(one, field) for one in taken]) for field in _OPTIONAL),
        )
        for name, taken in samples.items()
    ]


def _median_of(values: Sequence[float | None]) -> float | None:
    """Return the median of the values, or None without a value."""
    present = [value for value in values if value is not None]
    return median(present) if present else None
