"""The settings of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

SECTIONS = ("terms", "step", "concurrency", "first-token", "mixed", "floor")
REQUESTS = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The sizes of a Llama. Each head has its own keys, and the head is the embedding."""

    hidden: int = 768
    layers: int = 12
    heads: int = 12
    intermediate: int = 2048
    vocabulary: int = 16000

    @classmethod
    def parse(cls, text: str) -> LlamaShape:
        """Return the shape of a text such as `768,12,12,2048,16000`."""
        return cls(*map(int, text.split(",")))

    def __str__(self) -> str:
        return ",".join(map(str, astuple(self)))


@dataclass(frozen=True, slots=True)
class BenchmarkSettings:
    """The settings of a run of the benchmark.

    Without `model`, the model is a random Llama of `shape`. With both, it is `model` inflated to
    `shape`. All variants compute in `dtype`. Each makes `tokens` tokens per round. `requests` are
    the numbers of requests that run together in sections with many.
    """

    model: str | None = None
    shape: LlamaShape | None = None
    tokens: int = 32
    rounds: int = 5
    sections: Sequence[str] = SECTIONS
    requests: Sequence[int] = REQUESTS
    dtype: str = "float32"
