"""Vectors that are added after decoder layers: each row or token of a pass may have its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.passes.decoder_layers import hidden_states
from marith.scoring.weights.lora_files import Adapter

# Adding -0.0 keeps every bit of a number, and adding 0.0 turns -0.0 into 0.0.
NOTHING = -0.0


@dataclass(slots=True)
class _Table:
    """The shifts after one layer, [1 + adapters, width]. Row 0 is for tokens without a shift.

    `used` is a copy in the type and on the device of the layer's hidden states.
    """

    rows: Tensor
    used: Tensor

    def like(self, states: Tensor) -> Tensor:
        """Return the shifts in the type and on the device of hidden states."""
        if self.used.dtype != states.dtype or self.used.device != states.device:
            self.used = self.rows.to(states.device, states.dtype)
        return self.used


class Shifts:
    """The shifts of the most recently used adapters, and hooks that add them in one tree.

    Strengths are part of the tables, so an adapter with other strengths of the same vectors makes
    no new tree. `index` chooses the row of the tables: it is [rows, 1], [rows, length], or, if all
    tokens stand in one row, [1, tokens]. It is None in a pass without shifts.
    """

    def __init__(self, most: int) -> None:
        self.index: Tensor | None = None
        self._most = most
        self._tables: dict[str, _Table] = {}
        # This maps each adapter to its row of the tables. The most recently used one is last.
        self._met: WeakKeyDictionary[Adapter, int] = WeakKeyDictionary()

    def meet(self, adapters: Sequence[Adapter]) -> bool:
        """Add the new adapters, and drop the least recently used ones.

        Return True if an adapter has a shift after a layer without a hook: a new tree needs
        `install`.
        """
        own = [adapter for adapter in adapters if adapter.shifts]
        if all(adapter in self._met for adapter in own):
            for adapter in own:
                self._met[adapter] = self._met.pop(adapter)
            return False
        others = [adapter for adapter in self._met if adapter not in own]
        room = max(0, self._most - len(own))
        kept = [*others[max(0, len(others) - room) :], *own]
        self._met = WeakKeyDictionary({adapter: row for row, adapter in enumerate(kept, 1)})
        hooked = {*self._tables}
        for layer in dict.fromkeys([*self._tables, *(n for one in kept for n in one.shifts)]):
            shifts = [one.shifts.get(layer) for one in kept]
            width = next((len(one) for one in shifts if one is not None), 0)
            nothing = torch.full((width,), NOTHING)
            rows = torch.stack([nothing, *(nothing if one is None else one for one in shifts)])
            table = self._tables.setdefault(layer, _Table(rows, rows))
            table.rows = table.used = rows
        return {*self._tables} != hooked

    def install(self, tree: Any) -> None:
        """Let the layers of a tree of modules add the shifts to their hidden states."""
        for name, table in self._tables.items():
            # The first hook runs before transformers' own, which record hidden states.
            hook = self._adding(name, table)
            tree.get_submodule(name).register_forward_hook(hook, prepend=True)

    def rows_of(self, adapters: Sequence[Adapter | None]) -> list[int]:
        """Return the row of the tables for each adapter; 0 for one without shifts."""
        return [self._met[one] if one is not None and one.shifts else 0 for one in adapters]

    def _adding(self, name: str, table: _Table) -> Callable[..., Any]:
        """Return a hook that replaces a layer's hidden states by the shifted ones."""

        def add(_layer: Any, _inputs: Any, output: Any) -> Any:
            if (index := self.index) is None:
                return None
            states = hidden_states(output)
            if states is None or not _fits(states, index):
                shape = None if states is None else [*states.shape]
                raise ModelError(
                    f"vectors cannot share a pass of this model: the output {shape} of layer "
                    f"{name!r} has no hidden state for each token of each text"
                )
            shifted = states + table.like(states)[index.to(states.device)]
            return (shifted, *output[1:]) if isinstance(output, tuple) else shifted

        return add


def _fits(states: Tensor, index: Tensor) -> bool:
    """Return True if hidden states are [rows, length, width] for the index of a pass."""
    if states.dim() != 3 or len(states) != len(index):
        return False
    return index.shape[1] in (1, states.shape[1])
