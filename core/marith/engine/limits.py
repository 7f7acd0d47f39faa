"""How much an engine takes on at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from marith.errors import RequestError
from marith.scoring.runner import CACHE_BYTES

LEAST = {"max_lanes": 1, "max_queue": 0, "cache_bytes": 0}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what is in flight, on what waits, and on what is kept.

    At most `max_lanes` lanes of language models are in flight, and `max_queue` requests wait for
    lanes to come free. Each checkpoint keeps lanes for reuse while their keys and values weigh
    at most `cache_bytes`.
    """

    max_lanes: int = 64
    max_queue: int = 4096
    cache_bytes: int = CACHE_BYTES

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = LEAST[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise RequestError(f"{name} is a whole number from {least}, not {value!r}")
