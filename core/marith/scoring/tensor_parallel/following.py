"""What every process but the first does: the commands of the first, one after another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NoReturn, TypeAlias

import torch

from marith.scoring.checkpoints.checkpoint import Checkpoint
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.cpu_threads import computing_with
from marith.scoring.kv_cache.ragged_cache import KVCache
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.tensor_parallel.parallel_passes import known_as, unpacked
from marith.scoring.tensor_parallel.process_group import (
    ALIKE,
    END,
    Command,
    ProcessGroup,
    process_group,
)

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
    given: dict[str, Any] = {"kind": kind, "name": name, "where": where}
    given["placement"] = asdict(placement)
    with group.together("load", model=number, **given), group.agreeing(name):
        checkpoint = load(kind, name, where, placement)
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
            torch.distributed.destroy_process_group()
            raise SystemExit(0)
        with suppress(*ALIKE):  # the first process raises it too
            follower.obey(command)


class _Follower:
    """One process's part of every model, and its keys and values."""

    def __init__(self, group: ProcessGroup, load: Load) -> None:
        self._group, self._load = group, load
        self._models: dict[int, tuple[ModelPasses, int | None]] = {}  # and how many threads
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
            case "exits" | "whole" | "pass":
                self._pass(command.what, given, tensors)

    def _passes(self, given: Any) -> tuple[ModelPasses, int | None]:
        placement = Placement(**given["placement"])
        with self._group.agreeing(given["name"]):
            checkpoint = self._load(given["kind"], given["name"], given["where"], placement)
        passes = ModelPasses(checkpoint.model, checkpoint.vocabulary.size, checkpoint.name)
        return passes, checkpoint.threads

    @torch.inference_mode()
    def _pass(self, what: str, given: Any, tensors: Any) -> None:
        passes, threads = self._models[given["model"]]
        with computing_with(threads):
            if what == "exits":  # anew: each engine of the first process tries the model
                passes.forget_exits()
                _ = passes.exits
            elif what == "whole":
                passes.whole(tensors["ids"].to(passes.device))
            else:
                inputs = unpacked(self._caches, tensors, given, passes.device)
                rows = len(inputs["input_ids"])
                passes.run([None] * rows, given["kept"], given["layers"], **inputs)
