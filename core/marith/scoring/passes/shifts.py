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

    `used` is a copy in the type and on the device of the layer's hidden states. It stays where it
    is, because captured passes read it there.
    """

    rows: Tensor
    used: Tensor

    def like(self, states: Tensor) -> Tensor:
        """Return the shifts in the type and on the device of hidden states."""
        if self.used.dtype != states.dtype or self.used.device != states.device:
            self.used = self.rows.to(states.device, states.dtype)
        return self.used

    def put(self, row: int, shift: Tensor | None) -> None:
        """Write the shift of one adapter; None if it has no shift after this layer."""
        self.rows[row] = NOTHING if shift is None else shift
        if self.used is not self.rows:
            self.used[row] = self.rows[row]


class Shifts:
    """The shifts of the most recently used adapters, and hooks that add them in one tree.

    Strengths are part of the tables, so an adapter with other strengths of the same vectors makes
    no new tree: its shifts are written into a row of each table. `index` chooses the row of the
    tables: it is [rows, 1], [rows, length], or, if all tokens stand in one row, [1, tokens]. It is
    None in a pass without shifts.
    """

    def __init__(self, most: int) -> None:
        self.index: Tensor | None = None
        # This is the number of adapters that each table has rows for.
        self._size = most
        self._tables: dict[str, _Table] = {}
        # False from the first new table on, until a tree of modules adds the shifts of all tables.
        self.installed = True
        # This maps each adapter to its row of the tables. The most recently used one is last.
        self._met: WeakKeyDictionary[Adapter, int] = WeakKeyDictionary()

    def meet(self, adapters: Sequence[Adapter]) -> None:
        """Add the new adapters, in the rows of the least recently used ones.

        `installed` is False after this if there are new tables, for a layer without a hook or for
        more adapters than before: a new tree needs `install`.
        """
        own = [adapter for adapter in adapters if adapter.shifts]
        new = [adapter for adapter in own if adapter not in self._met]
        if len(own) > self._size:
            self._size, new, self.installed = len(own), own, False
            self._met.clear()
            self._tables.clear()
        for adapter in own:
            if adapter in self._met:
                self._met[adapter] = self._met.pop(adapter)
        for adapter in new:
            row = self._free_row(own)
            for layer, shift in adapter.shifts.items():
                if layer not in self._tables:
                    self.installed = False
                    rows = torch.full((1 + self._size, len(shift)), NOTHING)
                    self._tables[layer] = _Table(rows, rows)
            for layer, table in self._tables.items():
                table.put(row, adapter.shifts.get(layer))
            # An adapter whose rows could not be written is still new for the next pass.
            self._met[adapter] = row

    def install(self, tree: Any) -> None:
        """Let the layers of a tree of modules add the shifts to their hidden states."""
        for name, table in self._tables.items():
            # The first hook runs before transformers' own, which record hidden states.
            hook = self._adding(name, table)
            tree.get_submodule(name).register_forward_hook(hook, prepend=True)
        self.installed = True

    def rows_of(self, adapters: Sequence[Adapter | None]) -> list[int]:
        """Return the row of the tables for each adapter; 0 for one without shifts."""
        return [self._met[one] if one is not None and one.shifts else 0 for one in adapters]

    def _free_row(self, own: Sequence[Adapter]) -> int:
        """Return a row that no adapter has, or that of the least recently used one not in `own`."""
        # An adapter that nobody else holds may leave the map at any time, so it is read only once.
        met = [*self._met.items()]
        used = {row for _, row in met}
        free = [row for row in range(1, 1 + self._size) if row not in used]
        if free:
            return free[0]
        oldest, row = next((adapter, row) for adapter, row in met if adapter not in own)
        del self._met[oldest]
        return row

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
