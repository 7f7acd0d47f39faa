"""The settings of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

SECTIONS = ("terms", "step", "concurrency", "first-token", "mixed", "floor")
REQUESTS = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The sizes of a Llama: its heads all have their own keys, its embedding is its head."""

    hidden: int = 768
    layers: int = 12
    heads: int = 12
    intermediate: int = 2048
    vocabulary: int = 16000

    @classmethod
    def parse(cls, text: str) -> LlamaShape:
        """`768,12,12,2048,16000` → a shape."""
        return cls(*map(int, text.split(",")))

    def __str__(self) -> str:
        return ",".join(map(str, astuple(self)))


@dataclass(frozen=True, slots=True)
class BenchmarkSettings:
    """A run of the benchmark.

    Without `model` it is on a random Llama of `shape`; with both, on the model inflated to the
    shape. Everybody computes in `dtype`. Each variant makes `tokens` tokens a round; `requests`
    are how many run together where many do.
    """

    model: str | None = None
    shape: LlamaShape | None = None
    tokens: int = 32
    rounds: int = 5
    sections: Sequence[str] = SECTIONS
    requests: Sequence[int] = REQUESTS
    dtype: str = "float32"
