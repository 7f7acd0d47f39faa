"""How much an engine takes on at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from marith.formula.scalars import whole

CACHE_BYTES = 2**30
LOADED_BYTES = 2**35
LEAST = {"max_lanes": 1, "max_queue": 0, "cache_bytes": 0, "loaded_bytes": 0}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what is in flight, on what waits, and on what is kept.

    At most `max_lanes` lanes of language models are in flight, and `max_queue` requests wait for
    lanes to come free. Each checkpoint keeps lanes for reuse while their keys and values weigh
    at most `cache_bytes`. What terms name beside the base model, further checkpoints, adapters and
    n-grams, stays loaded while a request uses it; of the rest the last used stay, while they
    weigh at most `loaded_bytes`.
    """

    max_lanes: int = 64
    max_queue: int = 4096
    cache_bytes: int = CACHE_BYTES
    loaded_bytes: int = LOADED_BYTES

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            object.__setattr__(self, name, whole(name, value, LEAST[name]))
