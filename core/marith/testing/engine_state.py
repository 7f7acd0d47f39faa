"""State of an engine that its `status` does not have: lanes, bytes, passes, and the controller."""

from __future__ import annotations

from marith.engine.engine import Engine
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.passes import Passes
from marith.speculation.auto import Controller


def lanes_in_use(engine: Engine) -> int:
    """Return the number of lanes in the base model's cache that belong to requests.

    `engine.status().lanes` is the number of lanes that the running requests may use. Both are 0
    once `engine.status().idle` is True, a few milliseconds after the last answer. The base model
    has a cache of keys and values, and is run by transformers.
    """
    runner = engine._registry.base.runner
    assert isinstance(runner, CachedRunner), "this model's cache has no lanes"
    return runner.lanes.busy


def cached_bytes(engine: Engine) -> int:
    """Return the number of bytes that the caches of all checkpoints hold, idle lanes included."""
    return engine._registry.cache_limit.nbytes


def passes_of(engine: Engine) -> Passes:
    """Return the forward passes of the base model.

    `count` is the number of passes, and `tokens_read` the number of tokens that they have read. For
    a model of transformers, `reader` is the module that each pass calls, and `model` the whole
    model.
    """
    return engine._registry.base.runner.passes


def controller_of(engine: Engine) -> Controller:
    """Return the controller, which chooses the lengths of drafts under `speculation="auto"`.

    A test may change its state while no request runs.
    """
    return engine._loop.controller
