"""What a model is asked, and the forward passes that answer."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.passes.early_exit import Exits
from marith.scoring.passes.lora import Adapted, Adapter
from marith.scoring.weights.placing import main_device
from marith.tensor_rows import Row, gather


@dataclass(slots=True)
class Asked:
    """The log-probabilities after the last `count` prefixes of a prompt and its continuation.

    `lane` says whose text it is. `adapter` changes the weights that this lane is read with; `exits`
    are layers after which the model's log-probabilities are wanted too. Only texts of the same
    `salt` share prefixes.
    """

    lane: Hashable
    prompt: Sequence[int]
    count: int = 1
    adapter: Adapter | None = None
    exits: tuple[int, ...] = ()
    continuation: Sequence[int] = ()
    salt: str | None = None

    @property
    def tokens(self) -> list[int]:
        """The whole text."""
        return [*self.prompt, *self.continuation]

    @property
    def key(self) -> Hashable:
        """What texts have the same that share prefixes: what computes them, and the salt."""
        return self.adapter and self.adapter.key, self.salt

    def merged_with(self, other: Asked) -> Asked:
        """This question and another about the same text, as one."""
        exits = tuple(sorted({*self.exits, *other.exits}))
        return replace(self, count=max(self.count, other.count), exits=exits)


@dataclass(slots=True)
class Answer:
    """Log-probabilities, one row [vocab] a position, and the passes they took.

    `cached` counts the tokens that were at hand, `exits` holds the rows of early exits, by layer.
    """

    rows: Sequence[Row]
    exits: dict[int, list[Row]] = field(default_factory=dict)
    passes: frozenset[int] = frozenset()
    cached: int = 0

    @property
    def logprobs(self) -> Tensor:
        """The rows as one tensor, [count, vocab]."""
        return gather(self.rows)


class Passes:
    """Counts the passes of a causal language model, and the tokens that it reads.

    `vocab` is how many tokens there are, `holes` are numbers below it that are no tokens, and
    impossible. `name` is what messages call the model.
    """

    def __init__(self, vocab: int, name: str, holes: Sequence[int], device: torch.device) -> None:
        self.vocab, self.name, self.device = vocab, name, device
        self.count = self.tokens_read = 0
        self._holes = torch.tensor(holes, dtype=torch.long).to(device)

    def counted(self, tokens: int) -> frozenset[int]:
        """The number of the pass that has just read so many tokens."""
        self.count += 1
        self.tokens_read += tokens
        return frozenset((self.count,))

    def forget_counts(self) -> None:
        """Begin to count anew: what was tried out is no work for anyone."""
        self.count = self.tokens_read = 0

    def logprobs(self, logits: Tensor) -> Tensor:
        """[rows, count, vocab] → [rows · count, vocab], in float32 whatever the model computes in.

        Raises ModelError for what is not a number.
        """
        logits = logits[..., : self.vocab].float().flatten(0, -2)
        if len(self._holes):
            logits = logits.index_fill(-1, self._holes, -math.inf)
        logprobs = torch.log_softmax(logits, dim=-1)
        if bool(logprobs[:, -1].isnan().any()):  # one that is not a number makes all of its row so
            raise ModelError("the model computed what is not a number (NaN)")
        return logprobs


class ModelPasses(Passes):
    """Runs a causal language model of transformers.

    `arguments` are those that its code takes. `reader` is the tree of modules that `run` runs.
    """

    def __init__(self, model: Any, vocab: int, name: str = "", holes: Sequence[int] = ()) -> None:
        self.model = model.eval()
        super().__init__(vocab, name or type(model).__name__, holes, main_device(model))
        self.reader = self.model
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

    def read_by(self, tree: Any) -> ModelPasses:
        """The same, with passes of another tree of modules over the same weights, newly counted.

        Uncached passes and early exits stay those of the model.
        """
        other = copy.copy(self)
        other.reader, other._adapted = tree, Adapted(tree)
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
            inputs["output_hidden_states"] = True
        is_bare = not any(adapters)
        out = self.reader(**inputs) if is_bare else self._adapted.forward(adapters, **inputs)
        where = slice(-kept, None) if isinstance(kept, int) else kept
        early = [self.exits.logits(out.hidden_states, layer, where) for layer in layers]
        cut = isinstance(kept, int) or out.logits.shape[1] != len(kept)
        return out.logits[:, where] if cut else out.logits, early

    @torch.inference_mode()
    def uncached(self, texts: Tensor) -> Tensor:
        """Return log-probabilities [rows, length, vocab] of texts [rows, length], in one pass."""
        logits = self.model(input_ids=texts.to(self.device), use_cache=False).logits
        return self.logprobs(logits).view(*logits.shape[:2], -1)
