"""One causal language model, many lanes, one forward pass: only what no lane holds is computed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.kv_cache.chunked_prefill import Unread, alike, choose
from marith.scoring.kv_cache.lanes import Lane, Lanes
from marith.scoring.kv_cache.stores import RectangleStore, Store
from marith.scoring.language_model.asked import Answer, Asked
from marith.scoring.language_model.cuda_graphs import Captured
from marith.scoring.language_model.lora import Adapter
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.notices import warn


@dataclass(slots=True, kw_only=True)
class _Work(Unread):
    """What one question still needs, and the answer as far as it is known."""

    question: Asked
    answer: Answer


class CachedRunner:
    """Runs a model over many lanes at once, and keeps the keys and values of each.

    They change the cost of an answer and never the answer: the tokens asked are compared with
    those kept, the tail that differs is dropped. `capture` runs passes for single tokens at fixed
    shapes, on a GPU as graphs.
    """

    plain = False

    def __init__(self, passes: ModelPasses, store: Store) -> None:
        self.passes = passes
        self._store = store
        self.lanes: Lanes = store.lanes
        self.memory = store.memory
        self.captured: Captured | None = None
        self._unfinished: dict[Hashable, Answer] = {}

    def capture(self) -> None:
        """Captured passes from here on, where the keys and values lie in one rectangle."""
        if isinstance(store := self._store, RectangleStore):
            self.captured = Captured(self.passes.model, store.cache, store.masks)

    def give_up_capture(self, reason: str) -> None:
        """Ordinary passes from here on; a warning says why."""
        self.captured = None
        warn(f"{self.passes.name!r} decodes uncaptured, and so slower: {reason}")

    @torch.inference_mode()
    def ask(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """Answer what can be answered now, in as few passes as the lengths allow.

        None where a long text is still being read: one call reads at most a chunk of such texts, in
        the order of the questions, so that a short text waits for no more than one chunk.
        """
        lanes = self._lacking_one(questions)
        return self._read(questions) if lanes is None else self._read_one(questions, lanes)

    def _lacking_one(self, questions: Sequence[Asked]) -> list[Lane] | None:
        """The lanes, where each has one token to read and one answer to give: most often so."""
        if self._unfinished or not questions:
            return None
        lanes = []
        for asked in questions:
            lane = self.lanes.held.get(asked.lane)
            if lane is None or asked.count != 1 or asked.exits:
                return None
            if asked.rotary_length != questions[0].rotary_length:
                return None
            if not lane.lacks_one(asked.weights, asked.prompt, asked.continuation):
                return None
            lanes.append(lane)
        return lanes

    def _read_one(self, questions: Sequence[Asked], lanes: Sequence[Lane]) -> list[Answer | None]:
        """One pass over the last token of each text."""
        self.lanes.make_room(1 + max((len(lane.tokens) for lane in lanes), default=0))
        self.lanes.settle(lanes, front=self.captured is not None)
        by_row = sorted(zip(lanes, questions, strict=True), key=lambda pair: pair[0].row)
        given = [asked.continuation[-1] for _, asked in by_row]
        adapters = [asked.adapter for _, asked in by_row]
        with self.passes.rotated(questions[0].rotary_length):
            logprobs = self._logprobs(self._step([lane for lane, _ in by_row], given, adapters))
        number = self.passes.counted(len(given))
        place = {id(lane): i for i, (lane, _) in enumerate(by_row)}
        answers: list[Answer | None] = []
        for lane, asked in zip(lanes, questions, strict=True):
            answers.append(Answer([(logprobs, place[id(lane)])], {}, number, len(lane.tokens)))
            lane.tokens.append(asked.continuation[-1])
        return answers

    def _read(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """As many passes as the lengths of what is missing need."""
        work = [self._begin(question) for question in questions]
        self.lanes.make_room(max((item.length for item in work), default=0))
        chosen = choose(work, self.lanes, front=self.captured is not None)
        for length in dict.fromkeys(item.question.rotary_length for item in chosen):
            same = [item for item in chosen if item.question.rotary_length == length]
            with self.passes.rotated(length):
                for group in alike(same, lambda item: item.give, lambda item: item.lane.row):
                    self._forward(group)
        for item in work:
            item.answer.cached += item.copied
            if item.missing:
                self._unfinished[item.question.lane] = item.answer
        return [None if item.missing else item.answer for item in work]

    @torch.inference_mode()  # lanes that make room move what passes have written
    def release(self, owner: Hashable) -> None:
        """The lane is free for another text, which may continue what it holds."""
        self._unfinished.pop(owner, None)  # first: making room may fail
        self.lanes.release(owner)

    def forget(self) -> None:
        """Drop what all lanes hold."""
        self.lanes.forget()

    def _begin(self, asked: Asked) -> _Work:
        length = len(asked.prompt) + len(asked.continuation)
        known = max(0, length - asked.count)
        lane = self.lanes.take(asked.lane, asked.weights, asked.prompt, asked.continuation, known)
        answer = self._unfinished.pop(asked.lane, None) or Answer(())
        if not answer.passes:
            answer.cached = len(lane.tokens)
        return _Work(
            lane=lane,
            prompt=asked.prompt,
            continuation=asked.continuation,
            length=length,
            asked=asked.count,
            question=asked,
            answer=answer,
        )

    def _forward(self, group: list[_Work]) -> None:
        """One pass over the next tokens of each lane."""
        layers = sorted({layer for item in group for layer in item.question.exits})
        given = [item.next() for item in group]
        early: list[Tensor] = []
        if layers or any(item.give != 1 for item in group):
            logits, early = self._aligned(group, given, layers)
        else:
            adapters = [item.question.adapter for item in group]
            logits = self._step(
                [item.lane for item in group], [tokens[0] for tokens in given], adapters
            )
        number = self.passes.counted(sum(map(len, given)))
        logprobs = self._logprobs(logits)
        exits = {layer: self._logprobs(out) for layer, out in zip(layers, early, strict=True)}
        end, width = 0, logits.shape[1]
        for item, tokens in zip(group, given, strict=True):
            item.lane.tokens += tokens
            item.give = 0
            end += width
            places = range(max(end - width, end - item.asked), end)
            answer = item.answer
            answer.passes = answer.passes | number if answer.passes else number
            answer.rows = [(logprobs, at) for at in places]
            for layer in item.question.exits:
                answer.exits[layer] = [(exits[layer], at) for at in places]

    def _logprobs(self, logits: Tensor) -> Tensor:
        """Raises ModelError for what is no number, and drops all keys and values then."""
        try:
            return self.passes.logprobs(logits)
        except ModelError:
            self.lanes.forget()  # keys that are no numbers would reach whoever has the row next
            raise

    def _step(
        self, lanes: Sequence[Lane], tokens: list[int], adapters: Sequence[Adapter | None]
    ) -> Tensor:
        """Logits [rows, 1, vocab] of a pass for one token a lane, in order of their rows."""
        places = [len(lane.tokens) for lane in lanes]
        if self.captured is not None and not any(adapters):
            try:
                return self.captured.step([lane.row for lane in lanes], tokens, places)
            except RuntimeError as error:
                self.give_up_capture(f"{type(error).__name__}: {error}")
        at, ids = torch.tensor(places)[:, None], torch.tensor(tokens)[:, None]
        return self._pass(lanes, ids, at, [0] * len(lanes), adapters, 1, [])[0]

    def _aligned(
        self, group: list[_Work], given: list[list[int]], layers: list[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits [rows, count, vocab] of the last positions; the lanes aligned at their ends.

        Those of early exits too, layer by layer. Padding stands in front, at position 0, and is
        read by nobody.
        """
        width = max(map(len, given))
        ids, at = [], []
        for item, tokens in zip(group, given, strict=True):
            start, padding = len(item.lane.tokens), [0] * (width - len(tokens))
            ids.append([*padding, *tokens])
            at.append([*padding, *range(start, start + len(tokens))])
        return self._pass(
            [item.lane for item in group],
            torch.tensor(ids),
            torch.tensor(at),
            [width - len(tokens) for tokens in given],
            [item.question.adapter for item in group],
            min(width, max(item.asked for item in group)),
            layers,
        )

    def _pass(
        self,
        lanes: Sequence[Lane],
        ids: Tensor,
        places: Tensor,
        padding: Sequence[int],
        adapters: Sequence[Adapter | None],
        count: int,
        layers: Sequence[int],
    ) -> tuple[Tensor, list[Tensor]]:
        """Tokens [rows, width] at their places, the first `padding` of each row being none."""
        device = self.passes.device
        places = places.to(device)
        mask = self._store.aim(lanes, places, padding)
        return self.passes.run(
            adapters,
            count,
            layers,
            self._store.reading(),
            input_ids=ids.to(device),
            attention_mask=mask,
            position_ids=places,
            past_key_values=self._store.cache,
            use_cache=True,
        )
