"""Time variants in turn, round after round, so that a slow moment is slow for all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from marith.engine.threads.workers import run_in_thread


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: milliseconds per token (or to the first token), and its circumstances.

    `first_token` and `host` are in milliseconds; `host` is the time of a step outside of the model.
    `passes_per_token`, and `acceptance`, the share of drafted tokens that were accepted, are
    counted by the engine. `tokens_bytes` is the size of the keys and values of all tokens, and
    `resident` the growth of the process.
    """

    milliseconds: float
    first_token: float | None = None
    passes_per_token: float | None = None
    acceptance: float | None = None
    host: float | None = None
    tokens_bytes: float | None = None
    resident: float | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to generate tokens. `run` gets the number of the round, which has texts of its own.

    Its time is compared with the variant named `over`, or else with the first of the section.
    """

    name: str
    run: Callable[[int], Sample]
    over: str | None = None


@dataclass(slots=True)
class TokenClock:
    """When the tokens of one text arrived, in seconds since the request. Keeps state."""

    started: float
    arrivals: list[tuple[float, int]]

    @classmethod
    def start(cls) -> TokenClock:
        """Return a clock that starts now."""
        return cls(time.perf_counter(), [])

    def lap(self, tokens: int = 1) -> None:
        """Note that `tokens` tokens have arrived."""
        self.arrivals.append((time.perf_counter() - self.started, tokens))

    def sample(self, passes_per_token: float | None = None) -> Sample:
        """Return the pace after the first token, which waits for the prompt."""
        return Sample(pace(self.arrivals), 1e3 * self.arrivals[0][0], passes_per_token)


def pace(arrivals: Sequence[tuple[float, int]]) -> float:
    """Return milliseconds per token after the first arrival, or over all if there is only one.

    `arrivals` are seconds since the start, with the number of tokens that came then.
    """
    (first, first_tokens), *later = arrivals
    tokens = sum(count for _, count in later)
    if not tokens:
        return 1e3 * first / first_tokens
    return 1e3 * (later[-1][0] - first) / tokens


def interleave(
    variants: Sequence[Variant], rounds: int, announce: Callable[[str], None]
) -> dict[str, list[Sample]]:
    """Run every variant once in each round. Each round begins with another; round 0 warms up.

    `announce` receives the name of each. Garbage is collected before each variant. Each runs on a
    thread of its own that ends, so that it leaves no threads of OpenMP.
    """
    samples: dict[str, list[Sample]] = {variant.name: [] for variant in variants}
    for turn in range(rounds + 1):
        for i in range(len(variants)):
            variant = variants[(turn + i) % len(variants)]
            announce(variant.name)
            gc.collect()
            sample = run_in_thread(partial(variant.run, turn))
            if turn:
                samples[variant.name].append(sample)
    return samples
