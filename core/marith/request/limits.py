"""The limits of an engine, and its status."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from marith.request.checks import check_fields, checked_by, optional, whole_from

CACHE_BYTES = 2**30
LOADED_BYTES = 2**35


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on running and waiting requests, and on the memory for caches and models.

    Requests run together while they use at most `max_lanes` lanes of language models and at most
    `cache_bytes` of keys, values and states. Each text counts with the tokens that it has and 64
    more. A shared prefix counts once. If the texts grow beyond `cache_bytes`, the request that
    began last is paused: it waits, reads its text again later, and goes on with the same text. At
    most `max_queue` further requests wait. A request that alone needs more than `cache_bytes` runs
    alone. If the machine has too little memory for it, a request with `max_tokens` is refused. A
    text without `max_tokens` ends when it fills `cache_bytes` or half of the free memory, whichever
    is larger. Its finish reason is "length". With `cache_bytes=0` every request runs alone. By
    default `cache_bytes` is half of the memory that is free after the model is loaded. The cached
    prefixes of all checkpoints share `cache_bytes`, and are dropped first to make room.

    Further checkpoints, adapters and n-grams stay loaded while a request uses them. Afterwards the
    most recently used ones stay loaded, up to `loaded_bytes`.

    In one step, a model reads at most `max_batched_tokens` tokens of prompts, and fewer while other
    texts decode. None means 8,192 on an accelerator and 256 on a CPU. With more tokens, prompts are
    read faster, and other texts wait longer.
    """

    max_lanes: int = field(default=256, metadata=checked_by(whole_from(1)))
    max_queue: int = field(default=4096, metadata=checked_by(whole_from(0)))
    cache_bytes: int | None = field(default=None, metadata=checked_by(optional(whole_from(0))))
    loaded_bytes: int = field(default=LOADED_BYTES, metadata=checked_by(whole_from(0)))
    max_batched_tokens: int | None = field(
        default=None, metadata=checked_by(optional(whole_from(1)))
    )

    def __post_init__(self) -> None:
        check_fields(self)

    def with_memory(self, free: int) -> Limits:
        """Return these limits; if `cache_bytes` is None, set it to half of `free` bytes."""
        return self if self.cache_bytes is not None else replace(self, cache_bytes=free // 2)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The status of an engine at one moment.

    `running` requests share passes; `waiting` requests have no lanes yet. `lanes` counts the lanes
    of running requests that are not cancelled. `steps` counts the steps since the engine was
    loaded. `repeated` counts the steps that failed, after which each request was run again alone.
    `paused` counts how often a running request was paused because memory was short.
    `checkpoints` names the loaded models, the base model first.
    """

    running: int
    waiting: int
    lanes: int
    steps: int
    checkpoints: tuple[str, ...] = ()
    repeated: int = 0
    paused: int = 0

    @property
    def idle(self) -> bool:
        """True if no request runs or waits."""
        return not self.running and not self.waiting
