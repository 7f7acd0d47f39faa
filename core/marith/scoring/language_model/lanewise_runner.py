"""A model whose layers keep what no slot of ours can hold: a pass for each lane, each its cache."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from marith.errors import ModelError
from marith.request.limits import CACHE_BYTES
from marith.scoring.kv_cache.lanes import IDLE_LANES, TAIL
from marith.scoring.language_model.asked import Answer, Asked
from marith.scoring.language_model.model_passes import ModelPasses
from marith.tensor_rows import Row, rows_of


@dataclass(slots=True, eq=False)
class State:
    """What a model keeps of a text, in a cache of transformers' own kinds of layers.

    `weights` names those that it was computed by. Who goes on from a `snapshot` copies it.
    """

    weights: Hashable
    tokens: list[int]
    cache: Any
    snapshot: bool = False

    def copied(self, snapshot: bool = False) -> State:
        """One of its own memory."""
        return State(self.weights, [*self.tokens], copy.deepcopy(self.cache), snapshot)

    def begins(self, weights: Hashable, text: list[int], most: int) -> bool:
        """Whether a text goes on from it, at most `most` of whose tokens may be known."""
        length = len(self.tokens)
        return self.weights == weights and length <= most and self.tokens == text[:length]

    @property
    def nbytes(self) -> int:
        """What its tensors weigh."""
        return sum(tensor.nbytes for layer in self.cache.layers for tensor in _tensors(vars(layer)))


class LanewiseRunner:
    """Runs a model text by text, and keeps the state of each, which cannot be cut back.

    So a text that changes goes on from a snapshot of before: one is taken where a prompt ends, and
    one before several tokens are read whose logits are asked, as drafts are; this one is its lane's
    own. The others, and states of released lanes, stay while they weigh at most `most_bytes`, the
    last used the longest.
    Where a model cannot read several tokens from a state, `pieces` is False: it reads one after
    another then. States change the cost of an answer and never the answer.
    """

    plain = False

    def __init__(
        self, passes: ModelPasses, most_bytes: int = CACHE_BYTES, pieces: bool = True
    ) -> None:
        self.passes = passes
        self._most_bytes = most_bytes
        self._pieces = pieces
        given = inspect.signature(passes.model.forward).parameters
        self._argument = "cache_params" if "cache_params" in given else "past_key_values"
        self._held: dict[Hashable, State] = {}  # by lane
        self._before: dict[Hashable, State] = {}  # by lane, before the last drafts
        self._kept: list[State] = []  # the last used last

    @torch.inference_mode()
    def ask(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """Every answer, a pass each, or several."""
        return [self._answer(question) for question in questions]

    @torch.inference_mode()
    def release(self, owner: Hashable) -> None:
        """The state stays while there is memory for it: another text may continue it."""
        self._before.pop(owner, None)
        state = self._held.pop(owner, None)
        if state is not None:
            self._keep(state)

    def forget(self) -> None:
        """Drop all states."""
        self._held, self._before, self._kept = {}, {}, []

    def _answer(self, asked: Asked) -> Answer:
        text, count = asked.tokens, asked.count
        known = len(text) - count
        state = self._state(asked, text, known)
        at_hand, before = len(state.tokens), self.passes.count
        if (new := text[at_hand:known]) and (count > 1 or len(new) >= TAIL):
            self._read(state, new, replace(asked, count=1, exits=()))
        if len(new) >= TAIL:
            self._keep(state.copied(snapshot=True))
        elif count > 1:
            self._before[asked.lane] = state.copied(snapshot=True)
        logits, early = self._read(state, text[len(state.tokens) :], asked)
        rows = self._logprobs(logits)
        exits = {layer: self._logprobs(out) for layer, out in zip(asked.exits, early, strict=True)}
        self._held[asked.lane] = state  # last: whoever failed before begins anew
        return Answer(rows, exits, frozenset(range(before + 1, self.passes.count + 1)), at_hand)

    def _logprobs(self, logits: Tensor) -> list[Row]:
        """Raises ModelError for what is no number, and drops all states then."""
        try:
            return rows_of(self.passes.logprobs(logits))
        except ModelError:
            self.forget()
            raise

    def _state(self, asked: Asked, text: list[int], most: int) -> State:
        """The longest state from which the text goes on, the lane's own if it does."""
        weights = asked.adapter and asked.adapter.key
        own = self._held.pop(asked.lane, None)
        if own is not None and own.begins(weights, text, most):
            return own
        states = [*self._kept, *filter(None, [self._before.get(asked.lane)])]
        fitting = [state for state in states if state.begins(weights, text, most)]
        if not fitting:
            return State(weights, [], DynamicCache(config=self.passes.model.config))
        best = max(fitting, key=lambda state: len(state.tokens))
        if best in self._kept:
            self._kept.remove(best)
            if best.snapshot:
                self._kept.append(best)  # the last used
        return best.copied() if best.snapshot else best

    def _read(self, state: State, tokens: list[int], asked: Asked) -> tuple[Tensor, list[Tensor]]:
        """Logits [1, count, vocab] of the last positions, and those of the early exits."""
        whole = self._pieces or not state.tokens
        parts = [tokens] if whole else [[token] for token in tokens]
        read = [self._pass(state, part, asked, min(asked.count, len(part))) for part in parts]
        logits = torch.cat([out for out, _ in read[-asked.count :]], dim=1)
        columns = zip(*(early for _, early in read[-asked.count :]), strict=True)
        return logits, [torch.cat(column, dim=1) for column in columns]

    def _pass(
        self, state: State, tokens: list[int], asked: Asked, count: int
    ) -> tuple[Tensor, list[Tensor]]:
        ids = torch.tensor([tokens], device=self.passes.device)
        given = {"input_ids": ids, self._argument: state.cache, "use_cache": True}
        out = self.passes.run([asked.adapter], count, asked.exits, **given)
        self.passes.counted(len(tokens))
        state.tokens += tokens
        return out

    def _keep(self, state: State) -> None:
        """Among those that texts may go on from; the longest unused make room."""
        self._kept.append(state)
        weight = sum(kept.nbytes for kept in self._kept)
        while self._kept and (weight > self._most_bytes or len(self._kept) > IDLE_LANES):
            weight -= self._kept.pop(0).nbytes


def _tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in an attribute of a layer."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
