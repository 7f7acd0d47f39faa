"""State that `Engine.status` does not return: busy lanes, bytes, passes and the controller."""

from __future__ import annotations

from marith.engine.engine import Engine
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.passes import Passes
from marith.speculation.auto import Controller


def lanes_in_use(engine: Engine) -> int:
    """Return the number of lanes in the base model's cache that belong to requests.

    `engine.status().lanes` is the number of lanes that the running requests may use. Both numbers
    are 0 once `engine.status().idle` is True, a few milliseconds after the last answer. The base
    model must be run by transformers, and must have a cache of keys and values.
    """
    runner = engine._registry.base.runner
    assert isinstance(runner, CachedRunner), "this model's cache has no lanes"
    return runner.lanes.busy


def cached_bytes(engine: Engine) -> int:
    """Return the number of bytes that the caches of all checkpoints hold, idle lanes included."""
    return engine._registry.cache_limit.nbytes


def passes_of(engine: Engine) -> Passes:
    """Return the forward passes of the base model.

    `count` is the number of passes, and `tokens_read` is the number of tokens that they have read.
    If transformers runs the model, the returned object also has `model`, the whole model, and
    `reader`, the module that each pass calls.
    """
    return engine._registry.base.runner.passes


def controller_of(engine: Engine) -> Controller:
    """Return the controller, which chooses the lengths of drafts under `speculation="auto"`.

    A test may change its state while no request runs.
    """
    return engine._loop.controller
