"""One causal language model over many lanes: a pass computes only the tokens that no lane holds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText
from marith.scoring.notices import warn
from marith.scoring.passes.chunked_prefill import (
    FEW_TOKENS,
    FREE_TOKENS,
    PrefillLimits,
    Unread,
    choose,
    group_by_width,
)
from marith.scoring.passes.lanes import (
    NEW_TEXTS,
    Lane,
    Lanes,
    Rectangle,
    adapters_of,
    in_one_row,
    kept,
    rectangle,
    shifted_tokens,
)
from marith.scoring.passes.passes import Passes, Runner
from marith.scoring.passes.questions import Answer, Span, note_cached
from marith.scoring.weights.lora_files import Adapter

_ON_A_CPU = PrefillLimits()


@dataclass(slots=True, kw_only=True)
class _Work(Unread):
    """The tokens that one question still needs, and its answer so far."""

    question: Span
    answer: Answer


class CapturedPasses(Protocol):
    """Passes of one token for each row, at fixed shapes."""

    def step(
        self,
        rows: Sequence[int],
        tokens: Sequence[int],
        places: Sequence[int],
        adapters: Sequence[Adapter | None] = (),
    ) -> Tensor:
        """Return the logits [rows, 1, vocab] after one token for each row, at its place.

        `rows` are in ascending order. `adapters`, if there are any, have vectors and no LoRA. The
        logits are valid until the next step. Raises RuntimeError if the model cannot be captured.
        """
        ...


class CachedRunner(Runner):
    """A runner of a model over many lanes at once, which caches the keys and values of each lane.

    The cache changes the cost of an answer, never the answer: the tokens of a question are compared
    with the cached tokens, and the cached tokens after the first difference are dropped.

    `prefill` limits the tokens of long texts that a call reads. If `captured` is not None, passes
    over single tokens run at fixed shapes, on a GPU as CUDA graphs.
    """

    plain = False

    def __init__(self, passes: Passes, lanes: Lanes, prefill: PrefillLimits = _ON_A_CPU) -> None:
        self.passes = passes
        self.lanes = lanes
        self.captured: CapturedPasses | None = None
        self.prefill = prefill
        self._unfinished: dict[Hashable, Answer] = {}

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of lanes of all these texts."""
        return self.lanes.memory(texts)

    def join(self, limit: CacheLimit) -> None:
        """Keep the cache within `limit`, which several models share, from now on."""
        limit.join(self.lanes)

    def give_up_capture(self, reason: str) -> None:
        """Return to ordinary passes, and warn with the `reason`."""
        self.captured = None
        warn(f"{self.passes.name!r} decodes without captured passes, which is slower: {reason}")

    @torch.inference_mode()
    def ask(self, questions: Sequence[Span]) -> list[Answer | None]:
        """Answer the questions that can be answered now, in as few passes as the lengths allow.

        An answer is None while its long text is still being read. One call reads a limited number
        of tokens of long texts, the shortest first, so that no decoding text waits for a long one.
        """
        lanes = self._lacking_one(questions)
        return self._read(questions) if lanes is None else self._read_one(questions, lanes)

    def _captures(self, questions: Sequence[Span]) -> bool:
        """Return True if passes over one token of each of these texts are captured."""
        # Captured passes have vectors, but neither a LoRA nor early exits.
        return self.captured is not None and not any(
            asked.lane.exits or _has_lora(asked.lane.adapter) for asked in questions
        )

    def _lacking_one(self, questions: Sequence[Span]) -> list[Lane] | None:
        """Return the lanes of the questions if all questions are decoding steps; else None.

        In a decoding step, one token is unread, and the question asks for one position.
        """
        if self._unfinished or not questions:
            return None
        lanes = []
        for asked in questions:
            own, lane = asked.lane, self.lanes.held.get(asked.lane)
            if lane is None or asked.count != 1 or own.exits:
                return None
            if not lane.lacks_one(own.key, own.reading, asked.continuation):
                return None
            lanes.append(lane)
        return lanes

    def _read_one(self, questions: Sequence[Span], lanes: Sequence[Lane]) -> list[Answer | None]:
        """Run one pass over the last token of each text."""
        self.lanes.make_room(1 + max([len(lane.tokens) for lane in lanes]))
        self.lanes.settle(lanes, len(lanes) if self._captures(questions) else 0)
        rows = [lane.row for lane in lanes]
        order = sorted(range(len(rows)), key=rows.__getitem__)
        new = [[questions[i].continuation[-1]] for i in order]
        adapters = [questions[i].lane.adapter for i in order]
        # The token is the last of the prompt or a later one, so vectors are added to it.
        logits, _ = self._logits([rectangle([lanes[i] for i in order], new, adapters, 1)], [])
        logprobs, number = self.passes.logprobs(logits), self.passes.counted(len(lanes))
        answers: list[Answer | None] = [None] * len(lanes)
        for place, (i, token) in enumerate(zip(order, new, strict=True)):
            answers[i] = Answer([(logprobs, place)], number, len(lanes[i].tokens))
            lanes[i].tokens += token
        return answers

    def _read(self, questions: Sequence[Span]) -> list[Answer | None]:
        """Run one pass, or several if the numbers of unread tokens differ much between texts."""
        work = [self._begin(question) for question in questions]
        self.lanes.make_room(max((item.length for item in work), default=0))
        going = sum(item.goes_on for item in work)
        most = self.prefill.beside_texts(going)
        chosen = choose(work, self.lanes, most, self._captures(questions))
        for groups in self._passes_over(chosen):
            self._forward(groups)
        for item in work:
            item.answer.cached += item.copied
            if item.missing:
                self._unfinished[item.question.lane] = item.answer
        return [None if item.missing else item.answer for item in work]

    def _passes_over(self, items: list[_Work]) -> list[list[list[_Work]]]:
        """Return a list of groups for each pass. The texts of a group are read as one rectangle.

        If the lanes pack, one pass reads all groups, and each text of a group reads the same number
        of tokens. Otherwise each pass reads one group, and shorter texts are padded. The long texts
        that begin now then form groups of their own, because they need no mask.
        """
        widths = (lambda item: item.give), (lambda item: item.lane.row)
        if self.lanes.packs:
            groups = group_by_width(items, *widths, padded=0)
            return [groups] if groups else []
        near = [item for item in items if item.give <= FEW_TOKENS]
        far = [item for item in items if item.give > FEW_TOKENS]
        parts = (
            (near, FREE_TOKENS, len(items)),
            ([item for item in far if item.lane.tokens], self.prefill.padding, len(items)),
            ([item for item in far if not item.lane.tokens], self.prefill.padding, NEW_TEXTS),
        )
        return [
            [group[first : first + most]]
            for part, padded, most in parts
            for group in group_by_width(part, *widths, padded=padded)
            for first in range(0, len(group), most)
        ]

    # Making room changes tensors that passes have written, which only inference mode allows.
    @torch.inference_mode()
    def release(self, owner: Hashable) -> None:
        """Free the lane of `owner` for another text, which may continue its cached tokens."""
        # The unfinished answer is dropped first, because making room may fail.
        note_cached(owner, self._unfinished.pop(owner, None))
        self.lanes.release(owner)

    def forget(self) -> None:
        """Drop the keys and values of all lanes."""
        self.lanes.forget()

    def _begin(self, asked: Span) -> _Work:
        own, prompt = asked.lane, asked.lane.prompt
        length = len(prompt) + len(asked.continuation)
        # The last `count` tokens are read again even if they are cached, because only a pass gives
        # their logits.
        known = max(0, length - asked.count)
        lane = self.lanes.take(own, own.key, prompt, asked.continuation, known)
        answer = self._unfinished.pop(asked.lane, None) or Answer(())
        # Tokens that an earlier call has read for this question do not count as cached.
        if not answer.passes:
            answer.cached = len(lane.tokens)
        return _Work(
            lane=lane,
            prompt=prompt,
            continuation=asked.continuation,
            length=length,
            asked=asked.count,
            question=asked,
            answer=answer,
        )

    def _forward(self, groups: list[list[_Work]]) -> None:
        """Run one pass over the next tokens of each lane."""
        items = [item for group in groups for item in group]
        layers = sorted({layer for item in items for layer in item.question.lane.exits})
        rectangles = [_rectangle(group) for group in groups]
        logits, early = self._logits(rectangles, layers)
        tokens_by_row = [tokens for each in rectangles for tokens in each.new]
        number = self.passes.counted(sum(map(len, tokens_by_row)))
        logprobs = self.passes.logprobs(logits)
        exits = {layer: self.passes.logprobs(out) for layer, out in zip(layers, early, strict=True)}
        counts = [each.count for each in rectangles for _ in each.lanes]
        end = 0
        for item, tokens, count in zip(items, tokens_by_row, counts, strict=True):
            item.lane.tokens += tokens
            item.give = 0
            end += count
            # The rectangle has logits for the largest `asked` of its texts.
            places = range(max(end - count, end - item.asked), end)
            answer = item.answer
            answer.passes = answer.passes | number if answer.passes else number
            answer.rows = [(logprobs, at) for at in places]
            for layer in item.question.lane.exits:
                answer.exits[layer] = [(exits[layer], at) for at in places]

    def _logits(
        self, rectangles: Sequence[Rectangle], layers: Sequence[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits of the asked positions, and the logits of the early exit at each layer.

        For one rectangle, logits are [rows, count, vocab]. For several, they are [1, positions,
        vocab], in the order of the rectangles.
        """
        adapters, first = adapters_of(rectangles), rectangles[0]
        fixed = first.width == 1 and not layers and not any(map(_has_lora, adapters))
        if self.captured is not None and fixed:
            try:
                return _captured_step(self.captured, first), []
            except RuntimeError as error:
                self.give_up_capture(f"{type(error).__name__}: {error}")
        device, asked = self.passes.device, kept(rectangles)
        logits, early = self.passes.run(
            adapters,
            asked,
            layers,
            self.lanes.cache,
            shifted_tokens(rectangles),
            attention_mask=self.lanes.aim(rectangles),
            input_ids=in_one_row([each.ids for each in rectangles]).to(device),
            position_ids=in_one_row([each.places for each in rectangles]).to(device),
        )
        if isinstance(asked, int) or len(rectangles) > 1:
            return logits, early
        # The model computed logits at the positions of all texts, and each text asks for its own.
        columns = torch.searchsorted(asked, first.columns())
        rows = torch.arange(len(columns))[:, None]
        return logits[rows, columns], [each[rows, columns] for each in early]


def _rectangle(group: list[_Work]) -> Rectangle:
    """Return the rectangle that a pass reads of these texts."""
    return rectangle(
        [item.lane for item in group],
        [item.next() for item in group],
        [item.question.lane.adapter for item in group],
        max(item.asked for item in group),
        [item.question.lane.shifted_from for item in group],
    )


def _has_lora(adapter: Adapter | None) -> bool:
    return adapter is not None and adapter.lora is not None


def _captured_step(captured: CapturedPasses, new: Rectangle) -> Tensor:
    """Return the logits [rows, 1, vocab] of a captured pass over one token for each lane."""
    rows, tokens = [lane.row for lane in new.lanes], [token for [token] in new.new]
    if not any(new.adapters):
        return captured.step(rows, tokens, new.first)
    starts = new.shifted_from or [0] * len(rows)
    adapters = [
        adapter if place >= start else None
        for adapter, place, start in zip(new.adapters, new.first, starts, strict=True)
    ]
    return captured.step(rows, tokens, new.first, adapters)
