"""The limits of an engine, and its status."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from marith.request.checks import by, hold, optional, whole_from

CACHE_BYTES = 2**30
LOADED_BYTES = 2**35

_THREADS = "set OMP_NUM_THREADS in the environment before Python starts"
# What others call an option of an engine, and what to write here.
OTHER_NAMES = {
    "trust_remote_code": "marith never runs the code of a checkpoint",
    "device_map": "write device=…",
    "torch_dtype": "write dtype=…",
    "model_name": "write model=…",
    **dict.fromkeys(("max_model_len", "max_seq_len", "n_ctx"), "write context_length=…"),
    **dict.fromkeys(("threads", "n_threads", "num_threads"), _THREADS),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the requests that run and wait, and on the memory that is kept.

    Requests run at once while their lanes of language models are at most `max_lanes`, and while
    their keys, values and states take at most `cache_bytes`, should each text become as long as it
    may; prefixes in common count once. `max_queue` others wait; one that alone needs more than
    `cache_bytes` runs alone, and is refused where the machine has not so much memory. With 0 every
    request runs alone, and one without `max_tokens` counts with the whole context. What is kept for
    reuse, of all checkpoints together, makes room first. By default `cache_bytes` is half of the
    memory that is free once the model is loaded. Further checkpoints, adapters and n-grams stay
    loaded while a request uses them; of those that are unused, the last used stay while they take
    at most `loaded_bytes`.
    """

    max_lanes: int = field(default=256, metadata=by(whole_from(1)))
    max_queue: int = field(default=4096, metadata=by(whole_from(0)))
    cache_bytes: int | None = field(default=None, metadata=by(optional(whole_from(0))))
    loaded_bytes: int = field(default=LOADED_BYTES, metadata=by(whole_from(0)))

    def __post_init__(self) -> None:
        hold(self)

    def with_memory(self, free: int) -> Limits:
        """The same, with `cache_bytes` for an engine that has so many bytes free."""
        return self if self.cache_bytes is not None else replace(self, cache_bytes=free // 2)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The status of an engine at one moment.

    `running` requests share its passes; `waiting` requests have no lanes yet. `lanes` counts the
    lanes of running requests, except those that their callers have cancelled. `steps` counts the
    steps since the engine was loaded, and `repeated` those in which one request failed, so that
    they were repeated for each request alone. `checkpoints` names the models that are loaded, the
    base model first.
    """

    running: int
    waiting: int
    lanes: int
    steps: int
    checkpoints: tuple[str, ...] = ()
    repeated: int = 0

    @property
    def idle(self) -> bool:
        """Whether no request runs and none waits."""
        return not self.running and not self.waiting
