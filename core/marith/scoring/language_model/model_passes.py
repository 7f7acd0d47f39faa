"""One model's forward passes: what goes in by row, and the log-probabilities that come out."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marith.scoring.checkpoints.placing import main_device
from marith.scoring.language_model.early_exit import Exits
from marith.scoring.language_model.lora import Adapted, Adapter
from marith.scoring.language_model.passes import Passes

STATES = {"output_hidden_states": True}


class ModelPasses(Passes):
    """Runs a causal language model of transformers.

    `arguments` are those that its code takes.
    """

    def __init__(self, model: Any, vocab: int, name: str = "", holes: Sequence[int] = ()) -> None:
        self.model = model.eval()
        super().__init__(vocab, name or type(model).__name__, holes, main_device(model))
        self._adapted = Adapted(self.model)
        self._exits: Exits | None = None
        self.arguments = frozenset(inspect.signature(model.forward).parameters)

    @property
    def exits_checked(self) -> bool:
        """Whether `exits` are at hand; the first use of them runs the model once."""
        return self._exits is not None

    @property
    def exits(self) -> Exits:
        """Where the model may be left early. Raises ModelError where it may not."""
        if self._exits is None:
            self._exits = Exits(self.model)
        return self._exits

    @property
    def reader(self) -> Any:
        """The tree of modules that `run` runs."""
        return self._adapted.model

    def read_by(self, tree: Any) -> ModelPasses:
        """The same, with passes of another tree of modules over the same weights, newly counted.

        Uncached passes and early exits stay those of the model.
        """
        other = copy.copy(self)
        other._adapted = Adapted(tree)
        other.forget_counts()
        return other

    def run(
        self,
        adapters: Sequence[Adapter | None],
        kept: int | Tensor,
        layers: Sequence[int] = (),
        **inputs: Any,
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits [rows, kept, vocab] of so many last positions; those of each early exit too.

        `kept` may be an index of positions instead. There is an adapter for each row, or for each
        token where all stand in one row.
        """
        if "logits_to_keep" in self.arguments:
            inputs["logits_to_keep"] = kept
        if layers:
            inputs |= STATES
        out = self._adapted.forward(adapters, **inputs)
        where = slice(-kept, None) if isinstance(kept, int) else kept
        early = [self.exits.logits(out.hidden_states, layer, where) for layer in layers]
        cut = isinstance(kept, int) or out.logits.shape[1] != len(kept)
        return out.logits[:, where] if cut else out.logits, early

    @torch.inference_mode()
    def uncached(self, texts: Tensor) -> Tensor:
        """Return log-probabilities [rows, length, vocab] of texts [rows, length], in one pass."""
        logits = self.model(input_ids=texts.to(self.device), use_cache=False).logits
        return self.logprobs(logits).view(*logits.shape[:2], -1)
