"""One causal language model, many lanes, one forward pass."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.adapters import Adapted, Adapter
from marith.scoring.capture import Captured
from marith.scoring.kv_cache import KVCache
from marith.scoring.lanes import TAIL, Lane, Lanes, common

CHUNK = 256  # tokens of prompts that one call may read before those who wait are answered
NEAR = 16  # so few missing tokens are computed at once, whoever else has a long way to go
PIECE = 32  # less of a prompt is not worth a pass of its own
CACHE_BYTES = 2**30
CHECK = ({0: 5, 1: 3, 2: 4}, {0: 6, 1: 4, 2: 5}, {1: 5, 2: 6}, {0: 9, 1: 7})  # lengths, by lane
_REFUSALS = (TypeError, ValueError, RuntimeError, AttributeError, IndexError, ModelError)


@dataclass(frozen=True, slots=True)
class Asked:
    """The log-probabilities after the last `count` prefixes of `tokens`, for one lane.

    `adapter` changes the weights that this lane is read with.
    """

    lane: Hashable
    tokens: list[int]
    count: int = 1
    adapter: Adapter | None = None


@dataclass(slots=True)
class Answer:
    """Log-probabilities [count, vocab], the passes they took, and how many tokens were at hand."""

    logprobs: Tensor
    passes: set[int] = field(default_factory=set)
    cached: int = 0


@dataclass(slots=True)
class _Work:
    """What one question still needs."""

    asked: Asked
    lane: Lane
    answer: Answer
    give: int = 0

    @property
    def missing(self) -> int:
        """How many tokens the lane has yet to read."""
        return len(self.asked.tokens) - len(self.lane.tokens)

    @property
    def reach(self) -> list[int]:
        """What the lane will hold after the next pass."""
        return self.asked.tokens[: len(self.lane.tokens) + self.give]


class ModelRunner:
    """Runs a model over many lanes at once, computing only what no lane holds already.

    Keeps state (keys and values, by lane) that changes the cost of an answer and never the
    answer: the tokens asked are compared with those kept, the tail that differs is dropped.
    A model whose state cannot be addressed so is run `plain`: whole texts, one at a time.
    `capture` runs passes for single tokens at fixed shapes, on a GPU as graphs: None where the
    model is on one.
    """

    def __init__(
        self,
        model: Any,
        vocab: int,
        context_length: int,
        cache_bytes: int = CACHE_BYTES,
        capture: bool | None = None,
    ) -> None:
        self.model = model.eval()
        self.vocab = vocab
        self.passes = 0
        self._adapted = Adapted(model)
        self._cache = KVCache(int(model.config.get_text_config().num_hidden_layers))
        self.lanes = Lanes(self._cache, cache_bytes)
        self._unfinished: dict[Hashable, Answer] = {}
        eager = getattr(model.config, "_attn_implementation", "sdpa") != "sdpa"
        self._additive: torch.dtype | None = model.dtype if eager else None
        self._captured: Captured | None = None
        self.plain = False
        reason = _why_plain(model, context_length) or self._why_inexact()
        self.plain = bool(reason)
        if reason:
            warnings.warn(f"this model runs without a cache, and so slower: {reason}", stacklevel=2)
        elif model.device.type == "cuda" if capture is None else capture:
            self._begin_capture()
        self.passes = 0

    @torch.inference_mode()
    def ask(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """Answer what can be answered now, in as few passes as the lengths allow.

        None where a long text is still being read: one call reads at most a chunk of such texts,
        the first asked first, so that who waits for a single token waits for no more than that.
        """
        if self.plain:
            return [self._whole(question) for question in questions]
        work = [self._begin(question) for question in questions]
        self.lanes.make_room(max((len(question.tokens) for question in questions), default=0))
        near = [item for item in work if item.missing <= NEAR]
        self.lanes.settle([item.lane for item in near], front=self._captured is not None)
        for item in near:
            item.give = item.missing
        for group in _alike([*near, *self._pieces([w for w in work if w.missing > NEAR])]):
            self._forward(group)
        return [self._end(item) for item in work]

    def release(self, owner: Hashable) -> None:
        """The lane is free for another, which may go on from what it holds."""
        self.lanes.release(owner)
        self._unfinished.pop(owner, None)

    def _begin(self, asked: Asked) -> _Work:
        lane = self.lanes.take(asked.lane, asked.adapter, asked.tokens)
        del lane.tokens[max(0, len(asked.tokens) - asked.count) :]
        answer = self._unfinished.pop(asked.lane, None)
        return _Work(asked, lane, answer or Answer(torch.empty(0), cached=len(lane.tokens)))

    def _end(self, item: _Work) -> Answer | None:
        if item.missing == 0:
            return item.answer
        self._unfinished[item.asked.lane] = item.answer
        return None

    def _pieces(self, far: list[_Work]) -> list[_Work]:
        """What of the long texts is read now: a chunk together, the asked positions in one piece.

        A lane first takes over what another has read, and waits for one that reads it just now.
        """
        left = CHUNK
        chosen: list[_Work] = []
        for item in far:
            tokens = item.asked.tokens
            item.answer.cached += self.lanes.learn(item.lane, tokens[: -item.asked.count])
            ahead = len(item.lane.tokens) + TAIL
            if any(common(other.reach, tokens) >= ahead for other in chosen):
                continue
            item.give = item.missing
            if item.missing > max(left, item.asked.count if left == CHUNK else 0):
                item.give = min(left, item.missing - item.asked.count)
                if chosen and item.give < PIECE:
                    item.give = 0
                    break
            left -= item.give
            chosen.append(item)
        return chosen

    def _forward(self, group: list[_Work]) -> None:
        """One pass over the next tokens of each lane."""
        logits = self._replayed(group)
        if logits is None:
            logits = self._aligned(group)
        self.passes += 1
        logprobs = self._to_logprobs(logits)
        if bool(logprobs.isnan().any()):
            self.lanes.forget()  # keys that are no numbers would reach whoever has the row next
            raise ModelError("the model computed what is not a number (NaN)")
        for i, item in enumerate(group):
            item.lane.tokens = item.reach
            item.give = 0
            item.answer.passes.add(self.passes)
            item.answer.logprobs = logprobs[i, -item.asked.count :]

    def _replayed(self, group: list[_Work]) -> Tensor | None:
        """Logits [rows, 1, vocab] of a step of fixed shape; None where the pass is no such step."""
        steps = all(item.give == 1 and item.asked.adapter is None for item in group)
        if self._captured is None or not steps:
            return None
        places = [len(item.lane.tokens) for item in group]
        tokens = [item.asked.tokens[at] for item, at in zip(group, places, strict=True)]
        try:
            return self._captured.step([item.lane.row for item in group], tokens, places)
        except RuntimeError as error:
            self._give_up_capture(f"{type(error).__name__}: {error}")
            return None

    def _begin_capture(self) -> None:
        """Captured passes from here on, if they say what the uncached model says."""
        self._captured = Captured(self.model, self._cache, self._additive)
        if reason := self._why_inexact():
            self._give_up_capture(reason)

    def _give_up_capture(self, reason: str) -> None:
        self._captured = None
        warnings.warn(f"decoding runs uncaptured, and so slower: {reason}", stacklevel=2)

    def _aligned(self, group: list[_Work]) -> Tensor:
        """Logits [rows, count, vocab] of the last positions; the lanes aligned at their ends.

        Padding stands in front, at position 0, and sees the row's first slot only.
        """
        width = max(item.give for item in group)
        ends = max(len(item.reach) for item in group)
        shape, device = (len(group), width), self.model.device
        ids, places = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        slots = torch.full(shape, self._cache.padding_slot)
        for i, item in enumerate(group):
            start, own = len(item.lane.tokens), slice(width - item.give, width)
            ids[i, own] = torch.tensor(item.reach[start:])
            slots[i, own] = places[i, own] = torch.arange(start, len(item.reach))
        count = min(width, max(item.asked.count for item in group))
        self._cache.aim([item.lane.row for item in group], slots.to(device), ends)
        places = places.to(device)
        out = self._adapted.forward(
            [item.asked.adapter for item in group],
            input_ids=ids.to(device),
            attention_mask=self._cache.mask(places, self._additive),
            position_ids=places,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=count,
        )
        logits: Tensor = out.logits[:, -count:]
        return logits

    def _whole(self, question: Asked) -> Answer:
        """One pass over the whole text, nothing kept."""
        ids = torch.tensor([question.tokens], device=self.model.device)
        said = self._adapted.forward([question.adapter], input_ids=ids, use_cache=False)
        logits = said.logits
        self.passes += 1
        return Answer(self._to_logprobs(logits[0, -question.count :]), {self.passes})

    def _to_logprobs(self, logits: Tensor) -> Tensor:
        """float32 before any arithmetic, whatever the model computes in."""
        return torch.log_softmax(logits[..., : self.vocab].float(), dim=-1)

    def _why_inexact(self) -> str:
        """Compares the cached passes with the uncached model once, over ragged rows."""
        draw = torch.Generator().manual_seed(0)
        texts = torch.randint(0, self.vocab, (3, 9), generator=draw).tolist()
        tolerance = 1e-3 if self.model.dtype == torch.float32 else 0.5
        try:
            with torch.inference_mode():
                want = [self._whole(Asked(i, text, 9)).logprobs for i, text in enumerate(texts)]
            for count, lengths in zip((1, 1, 1, 2), CHECK, strict=True):
                asked = [Asked(i, texts[i][:end], count) for i, end in lengths.items()]
                for (i, end), answer in zip(lengths.items(), self.ask(asked), strict=True):
                    assert answer is not None
                    off = answer.logprobs - want[i][end - count : end]
                    worst = float(off.abs().max())
                    if not worst <= tolerance:  # NaN is not either
                        return f"cached and uncached passes differ by {worst:.2g}"
        except _REFUSALS as error:
            return f"it does not take a cache by lanes ({type(error).__name__}: {error})"
        finally:
            self.lanes.forget()
        return ""


def _why_plain(model: Any, context_length: int) -> str:
    """What in a model's configuration says that its past cannot be rolled back."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    window = getattr(config, "sliding_window", None)
    windowed = getattr(config, "use_sliding_window", True) and window and window < context_length
    turning = getattr(config, "rope_parameters", None) or {}
    turns = {
        turning.get("rope_type"),
        *(v.get("rope_type") for v in turning.values() if isinstance(v, dict)),
    }
    if turns & {"dynamic", "longrope"}:
        return "its rotary frequencies hang on the longest text of a pass"
    if kinds - {"sliding_attention"}:
        return f"it has layers of kind {', '.join(sorted(kinds))}"
    return f"its attention slides over {window} tokens" if windowed else ""


def _alike(work: list[_Work]) -> list[list[_Work]]:
    """Groups with about as much to compute each, so that little of a pass is padding."""
    groups: list[list[_Work]] = []
    for item in sorted(work, key=lambda item: item.give):
        if groups and item.give <= 1.5 * groups[-1][0].give + 4:
            groups[-1].append(item)
        else:
            groups.append([item])
    return [sorted(group, key=lambda item: item.lane.row) for group in groups]
