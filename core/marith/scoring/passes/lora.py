"""Adapters over one model's weights: each row of a pass may have its own LoRA and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from marith.errors import ModelError
from marith.scoring.passes.shifts import Shifts
from marith.scoring.weights.lora_files import Adapter, Update, sizes_of
from marith.scoring.weights.placing import main_device
from marith.scoring.weights.shared_weights import shared_copy

# At most this number of adapters stays in the concatenated matrices, unless one pass uses more.
MOST = 16


class Adapted:
    """A model that runs rows with different adapters, or without an adapter, in one pass.

    The low-rank matrices of all adapters are concatenated along their ranks, and in each row a mask
    sets the ranks of the other adapters to 0. So a layer needs two small products, whatever the
    number of adapters. Vectors are rows of a table: see `Shifts`.

    Keeps state, for one thread: the most recently used adapters, in a tree of modules that shares
    the weights of `model`. `model` itself is not changed. The state changes the cost, never the
    answer.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.tree: Any = None
        self._gate = _Gate()
        self._shifts = Shifts(MOST)
        # This maps each LoRA that is still held to the index of its first rank in the
        # concatenated matrices. The most recently used adapter is last.
        self._met: WeakKeyDictionary[Adapter, int] = WeakKeyDictionary()
        self._rank = 0
        self._rows: tuple[Adapter | None, ...] = ()
        # The rows of the tables of vectors, for `_rows`; `_index` is None if all are 0.
        self._table_rows: Sequence[int] = ()
        self._index: Tensor | None = None

    def forward(
        self,
        adapters: Sequence[Adapter | None],
        shifted: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """Return the model's output, with `adapters[i]` in row i, or no adapter if that is None.

        If there are more adapters than rows, there is one row, and its token i has `adapters[i]`.
        `shifted`, of the shape of the tokens, is False at tokens whose hidden states get no vector.
        """
        rows = tuple(adapters)
        if all(adapter is None for adapter in rows):
            return self.model(**inputs)
        self._prepare(rows)
        self._gate.by_token = by_token = len(inputs["input_ids"]) < len(rows)
        self._gate.kept = inputs.get("logits_to_keep")
        index = self._index
        if index is not None:
            index = index[None] if by_token else index[:, None]
            if shifted is not None:
                index = index * shifted.to(index.device)
        self._shifts.index = index
        return self.tree(**inputs)

    def table_rows(self, adapters: Sequence[Adapter | None]) -> Sequence[int]:
        """Return the row of the tables of vectors for each adapter, or 0 for None.

        The adapters have vectors and no LoRA.
        """
        self._prepare(tuple(adapters))
        return self._table_rows

    def shifting(self, index: Tensor) -> Any:
        """Return the tree of the adapters of `table_rows`. Its next pass adds the rows `index`."""
        self._shifts.index = index
        return self.tree

    def _prepare(self, rows: tuple[Adapter | None, ...]) -> None:
        """Make the tree ready for a pass with these adapters."""
        if rows == self._rows:
            return
        # If adding the adapters fails, the next pass adds them again.
        self._rows = ()
        self._meet([adapter for adapter in dict.fromkeys(rows) if adapter is not None])
        self._gate.closed = self._closed(rows)
        self._table_rows = self._shifts.rows_of(rows)
        index = torch.tensor(self._table_rows).to(main_device(self.model))
        self._index = index if any(self._table_rows) else None
        self._rows = rows

    def _meet(self, adapters: list[Adapter]) -> None:
        """Add the new adapters, and drop the least recently used ones beyond `MOST`.

        A new LoRA, and a vector after a layer that had none, makes a new tree.
        """
        self._shifts.meet(adapters)
        loras = dict.fromkeys(adapter.lora for adapter in adapters)
        adapters = [adapter for adapter in loras if adapter is not None]
        built = self.tree is not None and self._shifts.installed
        if built and all(adapter in self._met for adapter in adapters):
            for adapter in adapters:
                self._met[adapter] = self._met.pop(adapter)
            return
        others = [adapter for adapter in self._met if adapter not in adapters]
        room = max(0, MOST - len(adapters))
        kept = [*others[len(others) - min(room, len(others)) :], *adapters]
        starts, rank = WeakKeyDictionary[Adapter, int](), 0
        for adapter in kept:
            starts[adapter], rank = rank, rank + adapter.rank
        tree = shared_copy(self.model).eval()
        for layer in dict.fromkeys(layer for adapter in kept for layer in adapter.updates):
            updates = {starts[a]: a.updates[layer] for a in kept if layer in a.updates}
            base = tree.get_submodule(layer)
            made = _Layer(base, updates, rank, self._gate, layer, self.model.dtype)
            tree.set_submodule(layer, made)
        self._shifts.install(tree)
        self.tree, self._met, self._rank = tree, starts, rank

    def _closed(self, rows: tuple[Adapter | None, ...]) -> Tensor | None:
        """Return a mask [rows, 1, rank]: True at the ranks of other adapters than the row's own.

        Return None if no row has a LoRA.
        """
        loras = [adapter and adapter.lora for adapter in rows]
        if not any(loras):
            return None
        closed = torch.ones(len(rows), 1, self._rank, dtype=torch.bool)
        for i, adapter in enumerate(loras):
            if adapter is not None:
                start = self._met[adapter]
                closed[i, :, start : start + adapter.rank] = False
        return closed.to(main_device(self.model))


@dataclass(slots=True)
class _Gate:
    """The settings that all layers of one tree read during a pass.

    `closed` is None in a pass without a LoRA.
    """

    closed: Tensor | None = None
    by_token: bool = False
    kept: int | Tensor | None = None

    def of(self, x: Tensor) -> Tensor | None:
        """Return the mask for a layer's input [rows, length, inputs].

        Return None if the first two dimensions are not the rows and the tokens of the pass.
        """
        assert self.closed is not None
        closed = self.closed.transpose(0, 1) if self.by_token else self.closed
        if self.by_token and isinstance(self.kept, Tensor) and x.shape[1] == len(self.kept):
            # The head reads only the tokens whose logits are kept.
            closed = closed[:, self.kept]
        fits = x.dim() == 3 and len(x) == len(closed) and closed.shape[1] in (1, x.shape[1])
        return closed.to(x.device) if fits else None


class _Layer(nn.Module):
    """A linear layer, and the joined updates of all adapters."""

    down: Tensor
    up: Tensor

    def __init__(
        self,
        base: nn.Module,
        updates: Mapping[int, Update],
        rank: int,
        gate: _Gate,
        name: str,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.base, self.gate, self.name = base, gate, name
        inputs, outputs = sizes_of(base) or (0, 0)
        down, up = torch.zeros(rank, inputs), torch.zeros(rank, outputs)
        for start, update in updates.items():
            down[start : start + len(update.down)] = update.down
            up[start : start + len(update.up)] = update.up
        like = base.weight
        assert isinstance(like, Tensor)
        # A quantised weight has no floating-point dtype, so the updates get the model's dtype.
        dtype = like.dtype if like.is_floating_point() else dtype
        # A layer with a hook of accelerate computes on the hook's device, wherever its weights are.
        hook = getattr(base, "_hf_hook", None)
        device = getattr(hook, "execution_device", None)
        where = like.device if device is None else device
        self.register_buffer("down", down.to(where, dtype), persistent=False)
        self.register_buffer("up", up.to(where, dtype), persistent=False)

    @property
    def weight(self) -> Tensor | nn.Module:
        """The weight of the linear layer. Some models read its type."""
        return self.base.weight

    def forward(self, x: Tensor) -> Tensor:
        """Map [rows, length, inputs] to [rows, length, outputs]."""
        if self.gate.closed is None:
            unchanged: Tensor = self.base(x)
            return unchanged
        closed = self.gate.of(x)
        if closed is None:
            raise ModelError(
                f"adapters cannot share a pass of this model: the input {list(x.shape)} of layer "
                f"{self.name!r} has no row for each text; merge each adapter into a copy of the "
                "model, and name the copy: Prompted(model='…')"
            )
        # Fill instead of multiplying by 0: an overflow (inf) times 0 would be NaN.
        reduced = functional.linear(x, self.down).masked_fill_(closed, 0)
        output: Tensor = self.base(x)
        added = torch.addmm(output.flatten(0, 1), reduced.flatten(0, 1), self.up)
        return added.view(output.shape)
