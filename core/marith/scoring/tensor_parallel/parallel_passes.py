"""The first process's passes and keys: what it does to them, it tells the others to do too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary, finalize

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.kv_cache.ragged_cache import KVCache
from marith.scoring.language_model.early_exit import Exits
from marith.scoring.language_model.lora import Adapter
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.tensor_parallel.process_group import ProcessGroup, process_group

_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_MASK, _POINT = "attention_mask", "point"
_BY_KIND = "/"  # before the kind of layers that a mask is for


class ParallelPasses(ModelPasses):
    """Passes of a model that several processes compute: the inputs of each go to all of them."""

    def __init__(self, model: Any, vocab: int, name: str = "", holes: Sequence[int] = ()) -> None:
        super().__init__(model, vocab, name, holes)
        self._group, self._number = process_group(), number_of(model)

    @property
    def exits(self) -> Exits:
        """Where the model may be left early. Raises ModelError where it may not."""
        if self._exits is None:
            with self._group.together("exits", model=self._number):
                return super().exits
        return self._exits

    def run(
        self,
        adapters: Sequence[Adapter | None],
        kept: int | Tensor,
        layers: Sequence[int] = (),
        **inputs: Any,
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits [rows, kept, vocab], and those of early exits, as for a model on one device."""
        cache = inputs.get("past_key_values")
        if layers:
            self.exits.check(max(layers))  # a command of its own
        tensors, arguments = packed(cache, inputs)
        arguments |= {"model": self._number, "kept": kept, "layers": list(layers)}
        with self._group.together("pass", tensors, **arguments):
            return super().run(adapters, kept, layers, **inputs)

    def whole(self, ids: Tensor) -> Tensor:
        """Logits [rows, length, vocab] of texts [rows, length] without a cache."""
        with self._group.together("whole", {"ids": ids}, model=self._number):
            return super().whole(ids)


class ParallelCache(KVCache):
    """Keys and values of the first process; those of the others are moved as these are."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers)
        self._group = process_group()
        self.number = self._group.number()
        with self._group.together("cache", cache=self.number, layers=layers):
            finalize(self, self._group.dropped.append, self.number)

    def resize(self, rows: int, capacity: int) -> None:
        """Exactly so many rows and positions; what was in them, and still fits, stays."""
        super().resize(rows, capacity)  # first: where memory ends, no other process has begun
        self._too("resize", rows, capacity)

    def clear(self) -> None:
        """No rows and no positions."""
        super().clear()
        self._too("clear")

    def copy(self, source: int, target: int, length: int) -> None:
        """The first `length` positions of one row into another."""
        super().copy(source, target, length)
        if length:
            self._too("copy", source, target, length)

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange the first `length` positions of two rows."""
        super().swap(a, b, length)
        if length:
            self._too("swap", a, b, length)

    def _too(self, what: str, *numbers: int) -> None:
        """The others do the same."""
        with self._group.together("move", cache=self.number, how=what, numbers=numbers):
            pass


def number_of(model: Any) -> int:
    """The number by which all processes know a model that they loaded."""
    return _numbers[model]


def known_as(group: ProcessGroup, model: Any, number: int) -> None:
    """The first process has a model by this number, as the others have."""
    _numbers[model] = number
    finalize(model, group.dropped.append, number)


def is_parallel(model: Any) -> bool:
    """Whether several processes compute a model."""
    return model in _numbers


def require_whole(model: Any) -> None:
    """Raises ModelError for a model that several processes compute: no adapter goes over it."""
    if is_parallel(model):
        raise ModelError(
            "device='tp' computes a model without adapters; merge the adapter into a checkpoint, "
            "or load the model with device='auto'"
        )


def packed(cache: Any, inputs: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a pass and its other arguments, for a command; `unpacked` is the inverse."""
    tensors: dict[str, Tensor] = {}
    arguments: dict[str, Any] = {"inputs": {}}
    for key, value in inputs.items():
        if isinstance(value, Tensor):
            tensors[key] = value
        elif isinstance(value, Mapping):
            tensors |= {f"{key}{_BY_KIND}{kind}": one for kind, one in value.items()}
        elif key != "past_key_values":
            arguments["inputs"][key] = value
    if isinstance(cache, ParallelCache):
        rows, slots, seen, view = cache.aimed
        tensors |= {f"{_POINT}rows": rows, f"{_POINT}slots": slots}
        beside = [view.start, view.stop] if isinstance(view, slice) else None
        arguments |= {"cache": cache.number, "seen": seen, "beside": beside}
    return tensors, arguments


def unpacked(
    caches: Mapping[int, KVCache],
    tensors: Mapping[str, Tensor],
    arguments: Mapping[str, Any],
    device: torch.device,
) -> dict[str, Any]:
    """The inputs of a pass, whose cache points where that of the first process does."""
    inputs: dict[str, Any] = {**arguments["inputs"]}
    here = {key: one.to(device) for key, one in tensors.items()}
    for key, value in here.items():
        name, _, kind = key.partition(_BY_KIND)
        if kind:
            inputs.setdefault(name, {})[kind] = value
        elif not key.startswith(_POINT):
            inputs[key] = value
    if "cache" in arguments:
        cache, rows = caches[arguments["cache"]], here[f"{_POINT}rows"]
        beside = arguments["beside"]
        view = rows[:, 0] if beside is None else slice(*beside)
        cache.point(rows, here[f"{_POINT}slots"], arguments["seen"], view)
        inputs["past_key_values"] = cache
    return inputs
