"""The limits of an engine, and its status."""

from __future__ import annotations

from dataclasses import dataclass, field

from marith.request.checks import by, hold, whole_from

CACHE_BYTES = 2**30
LOADED_BYTES = 2**35


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the requests that run and wait, and on the memory that is kept.

    At most `max_lanes` lanes of language models are in use, and `max_queue` requests wait for free
    lanes. Each checkpoint keeps lanes for reuse while their keys and values take at most
    `cache_bytes`. Further checkpoints, adapters and n-grams stay loaded while a request uses them;
    of those that are unused, the last used stay while they take at most `loaded_bytes`.
    """

    max_lanes: int = field(default=64, metadata=by(whole_from(1)))
    max_queue: int = field(default=4096, metadata=by(whole_from(0)))
    cache_bytes: int = field(default=CACHE_BYTES, metadata=by(whole_from(0)))
    loaded_bytes: int = field(default=LOADED_BYTES, metadata=by(whole_from(0)))

    def __post_init__(self) -> None:
        hold(self)


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
