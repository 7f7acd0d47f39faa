"""What every process but the first does: the commands of the first, one after another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NoReturn, TypeAlias

import torch

from marith.errors import ModelError
from marith.scoring.checkpoints.checkpoint import Checkpoint
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.cpu_threads import threads_of
from marith.scoring.kv_cache.ragged_cache import KVCache
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.tensor_parallel.parallel_passes import known_as, unpacked
from marith.scoring.tensor_parallel.process_group import END, Command, ProcessGroup, process_group

Load: TypeAlias = Callable[[str, str, str, Placement], Checkpoint]
_log = logging.getLogger(__name__)


def load_together(load: Load, kind: str, name: str, where: str, placement: Placement) -> Checkpoint:
    """The checkpoint in the first process, once all have loaded it; others follow from here on.

    They raise SystemExit when the first one ends. Raises ModelError.
    """
    group = process_group()
    if group.rank:
        follow(group, load)
    number = group.number()
    given: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "where": where,
        "placement": asdict(placement),
    }
    with group.together("load", model=number, **given):
        checkpoint = _loaded(group, lambda: load(kind, name, where, placement), name)
    known_as(group, checkpoint.model, number)
    return checkpoint


def follow(group: ProcessGroup, load: Load) -> NoReturn:
    """Do what the first process does until it ends; then SystemExit is raised."""
    _log.info("process %d of %d computes its part of each pass", group.rank, group.size)
    follower = _Follower(group, load)
    while True:
        try:
            command = group.receive()
        except RuntimeError:
            raise SystemExit("the first process has ended without a word") from None
        if command.what == END:
            raise SystemExit(0)
        with suppress(ModelError), torch.inference_mode():  # the first process raises it too
            follower.obey(command)


class _Follower:
    """One process's part of every model, and its keys and values."""

    def __init__(self, group: ProcessGroup, load: Load) -> None:
        self._group, self._load = group, load
        self._models: dict[int, ModelPasses] = {}
        self._caches: dict[int, KVCache] = {}

    def obey(self, command: Command) -> None:
        """Do the same as the first process."""
        given, tensors = command.arguments, command.tensors
        for number in given["dropped"]:
            self._models.pop(number, None)
            self._caches.pop(number, None)
        match command.what:
            case "load":
                self._models[given["model"]] = self._passes(given)
            case "cache":
                self._caches[given["cache"]] = KVCache(given["layers"])
            case "move":
                getattr(self._caches[given["cache"]], given["how"])(*given["numbers"])
            case "exits":
                _ = self._models[given["model"]].exits
            case "whole" | "pass":
                self._pass(command.what, given, tensors)

    def _passes(self, given: Any) -> ModelPasses:
        placement = Placement(**given["placement"])
        wanted = given["kind"], given["name"], given["where"], placement
        checkpoint = _loaded(self._group, lambda: self._load(*wanted), given["name"])
        return ModelPasses(checkpoint.model, checkpoint.vocabulary.size, checkpoint.name)

    def _pass(self, what: str, given: Any, tensors: Any) -> None:
        passes = self._models[given["model"]]
        with threads_of(passes.model):
            if what == "whole":
                passes.whole(tensors["ids"].to(passes.device))
                return
            inputs = unpacked(self._caches, tensors, given, passes.device)
            rows = len(inputs["input_ids"])
            passes.run([None] * rows, given["kept"], given["layers"], **inputs)


def _loaded(group: ProcessGroup, load: Callable[[], Checkpoint], name: str) -> Checkpoint:
    """What this process has loaded. Raises ModelError where another one could not."""
    try:
        checkpoint = load()
    except BaseException:
        group.failed(here=True)
        raise
    if failed := group.failed(here=False):
        raise ModelError(
            f"{name!r} could not be loaded by process {failed[0]} of {group.size}; "
            "what that one printed says why"
        )
    return checkpoint
