"""What an engine is and does at this moment, in one line."""

from __future__ import annotations

from marith.engine.queueing.job_queue import JobQueue
from marith.scoring.registry import Registry


def description(registry: Registry, queue: JobQueue) -> str:
    """The base model, how it is run, and the lanes in use; any thread may ask."""
    base = registry.base
    cache = "without a cache" if base.runner.plain else "cached"
    with queue.lock:
        state = queue.closed or f"{queue.lanes} of {queue.limits.max_lanes} lanes busy"
    return (
        f"<Engine {base.checkpoint.name!r}: {base.checkpoint.summary}, {cache}, "
        f"context of {base.context_length} tokens, {state}>"
    )
