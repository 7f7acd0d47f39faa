"""The forward passes of a model, and the interface of runners, which answer questions with them."""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText
from marith.scoring.notices import note_neighbors
from marith.scoring.passes.decoder_layers import decoder_layers
from marith.scoring.passes.early_exit import Exits
from marith.scoring.passes.lora import Adapted
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.weights import control_vectors, lora_files
from marith.scoring.weights.control_vectors import ControlVector
from marith.scoring.weights.kinds import why_nan
from marith.scoring.weights.lora_files import Adapter
from marith.scoring.weights.placing import main_device
from marith.tensor_rows import has_nan

# A model's argument for a cache has one of these names. From transformers 5.24 on, all models use
# the first name. Before, the name depends on the model.
CACHES = "cache", "past_key_values", "cache_params"


class Passes(ABC):
    """The forward passes of a causal language model, with counts of passes and of tokens read.

    `vocab` is the size of the vocabulary. `holes` are numbers below `vocab` that are not tokens,
    and have probability 0. `name` is the name of the model in messages.
    """

    def __init__(self, vocab: int, name: str, holes: Sequence[int], device: torch.device) -> None:
        self.vocab, self.name, self.device = vocab, name, device
        self.count = self.tokens_read = 0
        self._holes = torch.tensor(holes, dtype=torch.long).to(device)

    @property
    @abstractmethod
    def exits_checked(self) -> bool:
        """True if `exits` are ready."""

    @property
    @abstractmethod
    def exits(self) -> Exits:
        """The early exits of the model. Raises ModelError if the model has no early exits."""

    @abstractmethod
    def run(
        self,
        adapters: Sequence[Adapter | None],
        kept: int | Tensor,
        layers: Sequence[int] = (),
        cache: Any = None,
        shifted: Tensor | None = None,
        **inputs: Any,
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits [rows, kept, vocab] of the last `kept` positions, and of early exits.

        `kept` may also be a tensor of indices of positions. `adapters` has an adapter for each row,
        or for each token if all tokens stand in one row. `layers` are the layers of the early
        exits. The pass reads and writes `cache`, if it is not None. `shifted`, of the shape of the
        tokens, is False at tokens to which no vector is added; None if vectors are added to all.
        """

    def counted(self, tokens: int) -> frozenset[int]:
        """Count a pass over `tokens` tokens, and return its number, as a set of one number."""
        self.count += 1
        self.tokens_read += tokens
        return frozenset((self.count,))

    def why_nan(self) -> str:
        """Return a sentence that says that log-probabilities are NaN."""
        return f"{self.name!r} computed NaN (not a number)"

    @abstractmethod
    def read_adapter(self, name: str) -> Adapter:
        """Read a LoRA for the weights of the model. Raises ModelError if it cannot be read."""

    @abstractmethod
    def read_vector(self, name: str) -> ControlVector:
        """Read a control vector for the model. Raises ModelError if it cannot be read."""

    @abstractmethod
    def steered(
        self,
        lora: Adapter | None,
        vectors: Sequence[tuple[ControlVector, float]],
        positions: Literal["all", "answer"],
    ) -> Adapter:
        """Return the adapter of a term with a LoRA, or None, and vectors with their strengths.

        Raises ModelError if vectors cannot be added to the model.
        """

    def forget_counts(self) -> None:
        """Reset the counters, for example after probing."""
        self.count = self.tokens_read = 0

    def logprobs(self, logits: Tensor) -> Tensor:
        """Return log-probabilities [rows · count, vocab] in float32 of logits [rows, count, vocab].

        A row is NaN if one of its logits is NaN or ∞. It is not checked here, because the check
        would wait for the device: see `Scorer.require_numbers`.
        """
        # The head of a model may be wider than its vocabulary.
        logits = logits[..., : self.vocab].flatten(0, -2)
        if len(self._holes):
            logits = logits.index_fill(-1, self._holes, -math.inf)
        # A GPU converts logits of 16 bits while it reads them, without a copy.
        return torch.log_softmax(logits, dim=-1, dtype=torch.float32)


class Runner(ABC):
    """The interface of runners, which answer questions about texts with the passes of one model.

    Runners cache keys, values or states of the texts, except for `plain` runners.
    """

    plain: bool
    passes: Passes

    @abstractmethod
    def ask(self, questions: Sequence[Span]) -> Sequence[Answer | None]:
        """Answer the questions that can be answered now, in as few passes as possible.

        An answer is None while its long text is still being read.
        """

    @abstractmethod
    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of keys, values and states of all these texts."""

    @abstractmethod
    def join(self, limit: CacheLimit) -> None:
        """Keep the cache within `limit`, which several models share, from now on."""

    @abstractmethod
    def release(self, owner: Hashable) -> None:
        """Free the lane of `owner` for another text, which may continue its cached tokens."""

    @abstractmethod
    def forget(self) -> None:
        """Drop the cached keys, values and states of all texts."""


def cache_argument(model: Any) -> str:
    """Return the name of a model's argument for a cache of transformers; "" if it has none."""
    parameters = inspect.signature(model.forward).parameters
    # XLM has an argument `cache` too, for a dictionary.
    own = "cache" in parameters and "dict" in str(parameters["cache"].annotation)
    return next((name for name in CACHES[own:] if name in parameters), "")


class ModelPasses(Passes):
    """The forward passes of a causal language model of transformers.

    `arguments` are the names of the arguments of the model's `forward`. `takes_cache` is True if
    one of them is for a cache. `reader` is the tree of modules that `run` calls.
    """

    def __init__(self, model: Any, vocab: int, name: str = "", holes: Sequence[int] = ()) -> None:
        self.model = model.eval()
        super().__init__(vocab, name or type(model).__name__, holes, main_device(model))
        self.reader = self.model
        self.adapted = Adapted(self.model)
        self._exits: Exits | None = None
        self._decoder_layers: Sequence[str] | None = None
        self.arguments = frozenset(inspect.signature(model.forward).parameters)
        self._cache_argument = cache_argument(model)

    def why_nan(self) -> str:
        """Return a sentence about NaN that names the damaged tensors, if there are any."""
        return why_nan(self.name, self.model)

    @property
    def takes_cache(self) -> bool:
        """True if the model has an argument for a cache of transformers."""
        return bool(self._cache_argument)

    @property
    def exits_checked(self) -> bool:
        """True if `exits` are ready. The first use of `exits` runs the model once."""
        return self._exits is not None

    @property
    def exits(self) -> Exits:
        """The early exits of the model. Raises ModelError if the model has no early exits."""
        if self._exits is None:
            self._exits = Exits(self.model)
        return self._exits

    def read_by(self, tree: Any) -> ModelPasses:
        """Return a copy that runs `tree`, other modules over the same weights, with own counters.

        Uncached passes and early exits still use the model itself.
        """
        other = copy.copy(self)
        other.reader, other.adapted = tree, Adapted(tree)
        other.forget_counts()
        return other

    def run(
        self,
        adapters: Sequence[Adapter | None],
        kept: int | Tensor,
        layers: Sequence[int] = (),
        cache: Any = None,
        shifted: Tensor | None = None,
        **inputs: Any,
    ) -> tuple[Tensor, list[Tensor]]:
        """Run the model, as `Passes.run` says. `inputs` are other arguments of the model."""
        inputs["use_cache"] = cache is not None
        if cache is not None:
            inputs[self._cache_argument] = cache
        if "logits_to_keep" in self.arguments:
            inputs["logits_to_keep"] = kept
        if layers:
            inputs["output_hidden_states"] = True
        is_bare = not any(adapters)
        adapted = self.adapted
        out = self.reader(**inputs) if is_bare else adapted.forward(adapters, shifted, **inputs)
        where = slice(-kept, None) if isinstance(kept, int) else kept
        early = [self.exits.logits(out.hidden_states, layer, where) for layer in layers]
        # A model without `logits_to_keep` returns the logits of all positions.
        cut = isinstance(kept, int) or out.logits.shape[1] != len(kept)
        return out.logits[:, where] if cut else out.logits, early

    def read_adapter(self, name: str) -> Adapter:
        """Read a LoRA for the weights of the model. Raises ModelError if it cannot be read."""
        # The products of adapters are not packed, so their bits depend on the number of rows.
        note_neighbors(f"the adapter {name!r}")
        return lora_files.read(name, self.model)

    def read_vector(self, name: str) -> ControlVector:
        """Read a control vector for the model. Raises ModelError if it cannot be read."""
        return control_vectors.read(name, self.model)

    def steered(
        self,
        lora: Adapter | None,
        vectors: Sequence[tuple[ControlVector, float]],
        positions: Literal["all", "answer"],
    ) -> Adapter:
        """Return the adapter of a term with vectors. The first use runs the model once.

        Raises ModelError if the model's decoder layers cannot be found, or if what is added to the
        hidden states is too large for their type.
        """
        if self._decoder_layers is None:
            self._decoder_layers = decoder_layers(self.model)
        layers, dtype = self._decoder_layers, self.model.dtype
        return control_vectors.steered(lora, vectors, positions, layers, dtype)

    @torch.inference_mode()
    def uncached(self, texts: Tensor) -> Tensor:
        """Return log-probabilities [rows, length, vocab] of texts [rows, length], in one pass.

        Raises ModelError for NaN.
        """
        logits = self.model(input_ids=texts.to(self.device), use_cache=False).logits
        logprobs = self.logprobs(logits)
        if has_nan(logprobs):
            raise ModelError(self.why_nan())
        return logprobs.view(*logits.shape[:2], -1)
