"""How much an engine takes on at a time, and how much it has in hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from marith.request.checks import by, hold, whole_from

CACHE_BYTES = 2**30
LOADED_BYTES = 2**35


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what is in flight, on what waits, and on what is kept.

    At most `max_lanes` lanes of language models are in flight, and `max_queue` requests wait for
    lanes to come free. Each checkpoint keeps lanes for reuse while their keys and values weigh
    at most `cache_bytes`. What terms name beside the base model, further checkpoints, adapters and
    n-grams, stays loaded while a request uses it; of the rest the last used stay, while they
    weigh at most `loaded_bytes`.
    """

    max_lanes: int = field(default=64, metadata=by(whole_from(1)))
    max_queue: int = field(default=4096, metadata=by(whole_from(0)))
    cache_bytes: int = field(default=CACHE_BYTES, metadata=by(whole_from(0)))
    loaded_bytes: int = field(default=LOADED_BYTES, metadata=by(whole_from(0)))

    def __post_init__(self) -> None:
        hold(self)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What an engine has in hand at one moment.

    `running` requests share its passes, and `waiting` ones have yet to get their lanes. `lanes`
    counts the lanes of those that run, without requests that their callers gave up. `steps` counts
    its steps since it was loaded, and `repeated` those that one request made fail, so that they
    were repeated for each alone. `checkpoints` names the models that are loaded, the base model
    first.
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
