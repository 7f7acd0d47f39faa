"""Variants in turn, round after round: what is slow for one is slow for all."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from marith.engine.threads.workers import run_in_thread


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: milliseconds a token (or to the first), and what goes with it.

    `first_token` and `host` are in milliseconds, the second of them a step's outside of the model;
    `passes_per_token` and `acceptance`, the share of drafted tokens that stood, are what the engine
    counted. All tokens' keys and values weigh `tokens_bytes`; the process grew by `resident`.
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
    """A way to make tokens. `run` is given the number of the round, whose texts are its own.

    Its time is compared with that of the variant named `over`, else with the section's first.
    """

    name: str
    run: Callable[[int], Sample]
    over: str | None = None


@dataclass(slots=True)
class TokenClock:
    """When the tokens of one text arrived, in seconds since it was asked for. Keeps state."""

    started: float
    arrivals: list[tuple[float, int]]

    @classmethod
    def start(cls) -> TokenClock:
        """A clock that starts now."""
        return cls(time.perf_counter(), [])

    def lap(self, tokens: int = 1) -> None:
        """Note that `tokens` tokens have arrived."""
        self.arrivals.append((time.perf_counter() - self.started, tokens))

    def sample(self, passes_per_token: float | None = None) -> Sample:
        """The pace after the first token, which waits for the prompt to be read."""
        return Sample(pace(self.arrivals), 1e3 * self.arrivals[0][0], passes_per_token)


def pace(arrivals: Sequence[tuple[float, int]]) -> float:
    """Milliseconds a token after the first arrival; over all, where there is only one.

    `arrivals` are seconds since the start, with how many tokens came then.
    """
    (first, first_tokens), *later = arrivals
    tokens = sum(count for _, count in later)
    if not tokens:
        return 1e3 * first / first_tokens
    return 1e3 * (later[-1][0] - first) / tokens


def interleave(
    variants: Sequence[Variant], rounds: int, announce: Callable[[str], None]
) -> dict[str, list[Sample]]:
    """Every variant once a round, each round begun by another; round 0 warms up.

    `announce` receives the name of each. What one left behind is collected before the next
    begins, and each runs on a thread that ends, so that it leaves no threads of OpenMP.
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
