"""One causal language model, many lanes, one forward pass."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.kv_cache import KVCache

CHUNK = 256
_REFUSALS = (TypeError, ValueError, RuntimeError, AttributeError, IndexError, ModelError)
IDLE_LANES = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """The log-probabilities after the last `count` prefixes of `tokens`, for one lane."""

    lane: Hashable
    tokens: Sequence[int]
    count: int = 1


@dataclass(slots=True)
class Answer:
    """Log-probabilities [count, vocab], the passes they took, and how many tokens were at hand."""

    logprobs: Tensor
    passes: set[int] = field(default_factory=set)
    cached: int = 0


@dataclass(slots=True)
class _Lane:
    """A row of the cache, and the tokens whose keys and values it holds."""

    row: int
    owner: Hashable | None
    tokens: list[int] = field(default_factory=list)
    used: int = 0


class ModelRunner:
    """Runs a model over many lanes at once, computing only what no lane holds already.

    Keeps state (keys and values, by lane) that changes the cost of an answer and never the
    answer: the tokens asked are compared with those kept, the tail that differs is dropped.
    A model whose state cannot be addressed so is run `plain`: whole texts, one at a time.
    """

    def __init__(self, model: Any, vocab: int, context_length: int) -> None:
        self.model = model.eval()
        self.vocab = vocab
        self.passes = 0
        self._clock = 0
        self._cache = KVCache(int(model.config.get_text_config().num_hidden_layers))
        self._lanes: list[_Lane] = []
        self._additive = getattr(model.config, "_attn_implementation", "sdpa") != "sdpa"
        reason = _why_plain(model, context_length) or self._why_inexact()
        self.plain = bool(reason)
        if reason:
            warnings.warn(f"this model runs without a cache, and so slower: {reason}", stacklevel=2)
        self.passes, self._lanes = 0, []

    @torch.inference_mode()
    def ask(self, questions: Sequence[Asked]) -> list[Answer]:
        """Answer all questions in as few passes as their lengths allow."""
        if self.plain:
            return [self._whole(question) for question in questions]
        lanes = self._take_lanes(questions)
        answers = [Answer(torch.empty(0)) for _ in questions]
        for question, lane, answer in zip(questions, lanes, answers, strict=True):
            kept = min(_common(lane.tokens, question.tokens), len(question.tokens) - question.count)
            del lane.tokens[kept:]
            answer.cached = kept
        work = list(zip(questions, lanes, answers, strict=True))
        while work:
            work = [w for w in work if len(w[1].tokens) < len(w[0].tokens)]
            for group in _alike(work):
                self._forward(group)
        return answers

    def release(self, owner: Hashable) -> None:
        """The lane is free for another, which may go on from what it holds."""
        for lane in self._lanes:
            if lane.owner == owner:
                lane.owner = None

    @property
    def busy_lanes(self) -> int:
        """How many lanes are held by someone."""
        return sum(lane.owner is not None for lane in self._lanes)

    def _forward(self, group: list[tuple[Asked, _Lane, Answer]]) -> None:
        """One pass over the next tokens of each lane, aligned at their ends."""
        given = [_missing(question, lane) for question, lane, _ in group]
        width = max(map(len, given))
        ends = max(len(n.tokens) + len(g) for (_, n, _), g in zip(group, given, strict=True))
        rows = [lane.row for _, lane, _ in group]
        self._cache.reserve(max(rows) + 1, ends)
        ids = torch.zeros(len(group), width, dtype=torch.long)
        slots = torch.full((len(group), width), self._cache.padding_slot)
        places = torch.zeros(len(group), width, dtype=torch.long)
        for i, ((_, lane, _), new) in enumerate(zip(group, given, strict=True)):
            ids[i, width - len(new) :] = torch.tensor(new)
            at = torch.arange(len(lane.tokens), len(lane.tokens) + len(new))
            places[i, width - len(new) :] = slots[i, width - len(new) :] = at
        count = max(question.count for question, _, _ in group)
        logprobs = self._pass(torch.tensor(rows), ids, slots, places, ends, min(count, width))
        for i, ((question, lane, answer), new) in enumerate(zip(group, given, strict=True)):
            lane.tokens.extend(new)
            answer.passes.add(self.passes)
            answer.logprobs = logprobs[i, -question.count :]

    def _pass(
        self, rows: Tensor, ids: Tensor, slots: Tensor, places: Tensor, seen: int, count: int
    ) -> Tensor:
        """Log-probabilities [rows, count, vocab] of the last positions; all else [rows, width].

        Padding stands in front, at position 0, and sees the row's first slot only.
        """
        device = self.model.device
        mask = (torch.arange(seen) <= places[:, :, None])[:, None].to(device)
        if self._additive:
            lowest = torch.finfo(self.model.dtype).min
            mask = torch.zeros(mask.shape, dtype=self.model.dtype, device=device).masked_fill(
                ~mask, lowest
            )
        self._cache.aim(rows.to(device), slots.to(device), seen)
        out = self.model(
            input_ids=ids.to(device),
            attention_mask=mask,
            position_ids=places.to(device),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=count,
        )
        self.passes += 1
        logprobs = self._to_logprobs(out.logits[:, -count:])
        if bool(logprobs.isnan().any()):
            self._forget()  # keys that are no numbers would reach whoever has the row next
            raise ModelError("the model computed what is not a number (NaN)")
        return logprobs

    def _forget(self) -> None:
        self._cache, self._lanes = KVCache(len(self._cache.layers)), []

    def _whole(self, question: Asked) -> Answer:
        """One pass over the whole text, nothing kept."""
        ids = torch.tensor([list(question.tokens)], device=self.model.device)
        logits = self.model(input_ids=ids, use_cache=False).logits
        self.passes += 1
        return Answer(self._to_logprobs(logits[0, -question.count :]), {self.passes})

    def _to_logprobs(self, logits: Tensor) -> Tensor:
        """float32 before any arithmetic, whatever the model computes in."""
        return torch.log_softmax(logits[..., : self.vocab].float(), dim=-1)

    def _take_lanes(self, questions: Sequence[Asked]) -> list[_Lane]:
        self._clock += 1
        held = {lane.owner: lane for lane in self._lanes if lane.owner is not None}
        lanes = []
        for question in questions:
            lane = held.get(question.lane) or self._free_lane(question)
            lane.owner, lane.used = question.lane, self._clock
            lanes.append(lane)
        return lanes

    def _free_lane(self, question: Asked) -> _Lane:
        """A lane to go on from, a new one while few lie idle, or else the longest unused."""
        idle = [lane for lane in self._lanes if lane.owner is None]
        best = max(idle, key=lambda n: (_common(n.tokens, question.tokens), -n.used), default=None)
        if best:
            shorter = min(len(best.tokens), len(question.tokens))
            if 2 * _common(best.tokens, question.tokens) >= shorter:
                return best
        if len(idle) >= IDLE_LANES:
            return min(idle, key=lambda lane: lane.used)
        lane = _Lane(row=len(self._lanes), owner=None)
        self._lanes.append(lane)
        return lane

    def _why_inexact(self) -> str:
        """Compares the cached passes with the uncached model once, over ragged rows."""
        draw = torch.Generator().manual_seed(0)
        texts = torch.randint(0, self.vocab, (2, 9), generator=draw).tolist()
        tolerance = 1e-3 if self.model.dtype == torch.float32 else 0.5
        self.plain = False
        try:
            self.ask([Asked(0, texts[0][:5]), Asked(1, texts[1][:3])])
            got = self.ask([Asked(0, texts[0], 2), Asked(1, texts[1][:5], 2)])
            with torch.inference_mode():
                want = [self._whole(Asked(0, texts[0], 2)), self._whole(Asked(1, texts[1][:5], 2))]
        except _REFUSALS as error:
            return f"it does not take a cache by lanes ({type(error).__name__}: {error})"
        finally:
            self._forget()
        worst = max(
            float((a.logprobs - b.logprobs).abs().max()) for a, b in zip(got, want, strict=True)
        )
        return "" if worst <= tolerance else f"cached and uncached passes differ by {worst:.2g}"


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


def _common(kept: Sequence[int], asked: Sequence[int]) -> int:
    """The length of the common prefix."""
    if len(kept) <= len(asked) and list(asked[: len(kept)]) == kept:
        return len(kept)
    pairs = zip(kept, asked, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(kept), len(asked)))


def _missing(question: Asked, lane: _Lane) -> list[int]:
    """The tokens that the lane computes next: at most a chunk, the asked positions in one piece."""
    start = len(lane.tokens)
    left = len(question.tokens) - start
    if left <= CHUNK + question.count:
        return list(question.tokens[start:])
    return list(question.tokens[start : start + CHUNK])


def _alike(
    work: list[tuple[Asked, _Lane, Answer]],
) -> list[list[tuple[Asked, _Lane, Answer]]]:
    """Groups with about as much to compute each, so that little of a pass is padding."""

    def missing(item: tuple[Asked, _Lane, Answer]) -> int:
        return len(_missing(item[0], item[1]))

    groups: list[list[tuple[Asked, _Lane, Answer]]] = []
    for item in sorted(work, key=missing):
        if groups and missing(item) <= 1.5 * missing(groups[-1][0]) + 4:
            groups[-1].append(item)
        else:
            groups.append([item])
    return [sorted(group, key=lambda item: item[1].row) for group in groups]
