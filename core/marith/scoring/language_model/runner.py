"""One causal language model, many lanes, one forward pass."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.request.limits import CACHE_BYTES
from marith.scoring.kv_cache.cache_support import Limit, limit_of, mask_dtype
from marith.scoring.kv_cache.lanes import Lanes
from marith.scoring.kv_cache.ragged_cache import KVCache
from marith.scoring.language_model.asked import Answer, Asked, to_logprobs
from marith.scoring.language_model.chunked_prefill import Unread, alike, choose
from marith.scoring.language_model.cuda_graphs import Captured
from marith.scoring.language_model.early_exit import Exits
from marith.scoring.language_model.lora import Adapted
from marith.scoring.language_model.probe import SHORT, compare, distance, why_inexact
from marith.scoring.notices import warn

__all__ = ["Answer", "Asked", "ModelRunner"]

STATES = {"output_hidden_states": True}


@dataclass(slots=True, kw_only=True)
class _Work(Unread):
    """What one question still needs, and what it has been answered so far."""

    question: Asked
    answer: Answer


class ModelRunner:
    """Runs a model over many lanes at once, computing only what no lane holds already.

    Keeps state (keys and values, by lane) that changes the cost of an answer and never the
    answer: the tokens asked are compared with those kept, the tail that differs is dropped.
    A model whose state cannot be addressed so is run `plain`: whole texts, one at a time, which a
    warning says by the model's `name`. `capture` runs passes for single tokens at fixed shapes, on
    a GPU as graphs: None where the model is on one. `holes` are numbers below `vocab` that are no
    tokens, and impossible.
    """

    def __init__(
        self,
        model: Any,
        vocab: int,
        context_length: int,
        cache_bytes: int = CACHE_BYTES,
        capture: bool | None = None,
        name: str = "",
        holes: Sequence[int] = (),
        probed: bool = True,
    ) -> None:
        self.model = model.eval()
        self.vocab = vocab
        self.name = name or type(model).__name__
        self.passes = self.tokens_read = 0
        self._adapted = Adapted(model)
        self._cache = KVCache(int(model.config.get_text_config().num_hidden_layers))
        self.lanes = Lanes(self._cache, cache_bytes)
        self._unfinished: dict[Hashable, Answer] = {}
        self._additive = mask_dtype(model)
        self._captured: Captured | None = None
        self._exits: Exits | None = None
        self._to_logprobs = partial(
            to_logprobs, vocab=vocab, holes=torch.tensor(holes, dtype=torch.long).to(model.device)
        )
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self.plain = False
        if probed:
            self._probe(context_length, capture)

    def _probe(self, context_length: int, capture: bool | None) -> None:
        """Find out whether the model's passes can be cached, and whether they can be captured."""
        limit = limit_of(self.model, context_length) or self._limit(context_length)
        if limit is not None:
            remedy = limit.tokens >= SHORT and self._limit(limit.tokens) is None
            advice = f"; with context_length={limit.tokens} it keeps one" if remedy else ""
            self.plain = True
            self._check_causal(min(6, context_length))
            warn(f"{self.name!r} runs without a cache, and so slower: {limit.reason}{advice}")
        elif self.model.device.type == "cuda" if capture is None else capture:
            self._begin_capture()
        self.passes = self.tokens_read = 0

    def _limit(self, context_length: int) -> Limit | None:
        """What a comparison of cached with uncached passes finds wrong."""
        reason = why_inexact(self.model, context_length, self._differ)
        return Limit(0, reason) if reason else None

    def _differ(self, model: Any, extra: int) -> str:
        """How the cached passes of this model, or of a small one of its kind, go wrong."""
        if model is self.model:
            return compare(self, extra)
        vocab = int(model.config.get_text_config().vocab_size)
        return compare(ModelRunner(model, vocab, vocab, probed=False), extra)

    @torch.inference_mode()
    def uncached(self, texts: Tensor) -> Tensor:
        """Log-probabilities [rows, length, vocab] of texts [rows, length], by the model alone."""
        out = self.model(input_ids=texts.to(self.model.device), use_cache=False)
        return self._to_logprobs(out.logits)

    @property
    def exits(self) -> Exits:
        """Where the model may be left early. Raises ModelError where it may not."""
        if self._exits is None:
            self._exits = Exits(self.model)
        return self._exits

    @torch.inference_mode()
    def ask(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """Answer what can be answered now, in as few passes as the lengths allow.

        None where a long text is still being read: one call reads at most a portion of such texts,
        the first asked first, so that who waits for a single token waits for no more than that.
        """
        if self.plain:
            return [self._whole(question) for question in questions]
        work = [self._begin(question) for question in questions]
        self.lanes.make_room(max((len(question.tokens) for question in questions), default=0))
        chosen = choose(work, self.lanes, front=self._captured is not None)
        for group in alike(chosen, lambda item: item.give, lambda item: item.lane.row):
            self._forward(group)
        return [self._end(item) for item in work]

    @torch.inference_mode()  # lanes that make room move what passes have written
    def release(self, owner: Hashable) -> None:
        """The lane is free for another, which may go on from what it holds."""
        self.lanes.release(owner)
        self._unfinished.pop(owner, None)

    def _begin(self, asked: Asked) -> _Work:
        voice = asked.adapter and (asked.adapter.name, asked.adapter.digest)
        lane = self.lanes.take(asked.lane, voice, asked.tokens)
        del lane.tokens[max(0, len(asked.tokens) - asked.count) :]
        answer = self._unfinished.pop(asked.lane, None) or Answer(torch.empty(0))
        return _Work(
            lane=lane,
            tokens=asked.tokens,
            asked=asked.count,
            cached=answer.cached if answer.passes else len(lane.tokens),
            question=asked,
            answer=answer,
        )

    def _end(self, item: _Work) -> Answer | None:
        item.answer.cached = item.cached
        if item.missing == 0:
            return item.answer
        self._unfinished[item.question.lane] = item.answer
        return None

    def _forward(self, group: list[_Work]) -> None:
        """One pass over the next tokens of each lane."""
        layers = sorted({layer for item in group for layer in item.question.exits})
        early: list[Tensor] = []
        logits = self._replayed(group)
        if logits is None:
            logits, early = self._aligned(group, layers)
        self.passes += 1
        self.tokens_read += sum(item.give for item in group)
        try:
            logprobs = self._to_logprobs(logits)
        except ModelError:
            self.lanes.forget()  # keys that are no numbers would reach whoever has the row next
            raise
        for i, item in enumerate(group):
            item.lane.tokens = item.reach
            item.give = 0
            item.answer.passes.add(self.passes)
            item.answer.logprobs = logprobs[i, -item.asked :]
            item.answer.exits = {
                layer: self._to_logprobs(said[i, -item.asked :])
                for layer, said in zip(layers, early, strict=True)
            }

    def _replayed(self, group: list[_Work]) -> Tensor | None:
        """Logits [rows, 1, vocab] of a step of fixed shape; None where the pass is no such step."""
        steps = all(
            item.give == 1 and item.question.adapter is None and not item.question.exits
            for item in group
        )
        if self._captured is None or not steps:
            return None
        places = [len(item.lane.tokens) for item in group]
        tokens = [item.tokens[at] for item, at in zip(group, places, strict=True)]
        try:
            return self._captured.step([item.lane.row for item in group], tokens, places)
        except RuntimeError as error:
            self._give_up_capture(f"{type(error).__name__}: {error}")
            return None

    def _begin_capture(self) -> None:
        """Captured passes from here on, if they say what the uncached model says."""
        self._captured = Captured(self.model, self._cache, self._additive)
        if reason := compare(self):
            self._give_up_capture(reason)

    def _give_up_capture(self, reason: str) -> None:
        self._captured = None
        warn(f"{self.name!r} decodes uncaptured, and so slower: {reason}")

    def _aligned(self, group: list[_Work], layers: list[int]) -> tuple[Tensor, list[Tensor]]:
        """Logits [rows, count, vocab] of the last positions; the lanes aligned at their ends.

        Those of early exits too, layer by layer. Padding stands in front, at position 0, and sees
        the row's first slot only.
        """
        width = max(item.give for item in group)
        ends = max(len(item.reach) for item in group)
        ids, at, into = [], [], []
        for item in group:
            start, padding = len(item.lane.tokens), width - item.give
            own = range(start, len(item.reach))
            ids.append([*[0] * padding, *item.reach[start:]])
            at.append([*[0] * padding, *own])
            into.append([*[self._cache.padding_slot] * padding, *own])
        count, device = min(width, max(item.asked for item in group)), self.model.device
        self._cache.aim([item.lane.row for item in group], torch.tensor(into).to(device), ends)
        places = torch.tensor(at).to(device)
        out = self._adapted.forward(
            [item.question.adapter for item in group],
            input_ids=torch.tensor(ids).to(device),
            attention_mask=self._cache.mask(places, self._additive),
            position_ids=places,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=count,
            **STATES if layers else {},
        )
        return out.logits[:, -count:], self._early(out, layers, count)

    def _early(self, out: Any, layers: Sequence[int], count: int) -> list[Tensor]:
        """Logits [rows, count, vocab] of each early exit."""
        return [self.exits.logits(out.hidden_states, layer, count) for layer in layers]

    def _whole(self, question: Asked) -> Answer:
        """One pass over the whole text, nothing kept."""
        ids = torch.tensor([question.tokens], device=self.model.device)
        layers, count = question.exits, question.count
        out = self._adapted.forward(
            [question.adapter],
            input_ids=ids,
            use_cache=False,
            **{"logits_to_keep": count} if self._keeps else {},
            **STATES if layers else {},
        )
        self.passes += 1
        self.tokens_read += len(question.tokens)
        early = self._early(out, layers, count)
        exits = {k: self._to_logprobs(one[0]) for k, one in zip(layers, early, strict=True)}
        return Answer(self._to_logprobs(out.logits[0, -count:]), exits, {self.passes})

    @torch.inference_mode()
    def _check_causal(self, length: int) -> None:
        """Raises ModelError for a model whose words hang on what comes after them."""
        text, half = [i % self.vocab for i in range(1, length + 1)], length // 2
        whole = self._whole(Asked(0, text, length)).logprobs[:half]
        alone = self._whole(Asked(0, text[:half], half)).logprobs
        if distance(whole, alone) > 0.1:
            kind = type(self.model).__name__
            raise ModelError(f"{kind} is no causal language model: it reads what comes after, too")
