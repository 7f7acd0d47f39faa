"""Recurrent and hybrid models: each lane has a transformers cache of the model's own layers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marith.request.limits import CACHE_BYTES
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.chunked_prefill import CHUNK, FEW_TOKENS
from marith.scoring.passes.lanes import SHORT_PREFIX
from marith.scoring.passes.passes import ModelPasses, Runner
from marith.scoring.passes.questions import (
    Answer,
    RequestLane,
    Span,
    note_cached,
    shifted_after,
)
from marith.scoring.passes.states.states import (
    Joined,
    KeptStates,
    State,
    StateSize,
    groups,
    new_cache,
)
from marith.scoring.weights.shared_weights import nbytes, weights
from marith.tensor_rows import rows_of

# The code of these model types reads only one token at a time after a state.
TOKEN_BY_TOKEN = {"falcon_mamba", "jamba", "mamba", "zamba"}
# The padding of a pass takes at most this share of the bytes of the model's weights.
PADDING = 1 / 8


@dataclass(slots=True)
class _Budget:
    """The number of tokens of long texts that one call may still read."""

    left: int
    begun: bool = False

    def grants(self, size: int, missing: int) -> bool:
        """Return True if a text with `missing` unread tokens may read `size` tokens now."""
        if missing <= FEW_TOKENS:
            return True
        # The first text of a call may exceed the budget, or it would never be read.
        if self.begun and size > self.left:
            return False
        self.left, self.begun = max(0, self.left - size), True
        return True


class StateRunner(Runner):
    """A runner of a model with states, which keeps the state of each text.

    A state cannot be truncated, so a text that is rolled back continues an earlier snapshot. One
    snapshot is taken at the end of a prompt. Another snapshot is taken before tokens that may be
    rolled back, such as drafts; it belongs to its lane. `KeptStates` says how long snapshots stay.

    If `joins` is True, texts with one unread token each are read in one pass, with their states as
    rows of one cache. Otherwise each text has a pass of its own. A call reads at most `at_once`
    tokens of long texts, or one chunk while other texts decode. States change the cost of an
    answer, never the answer.
    """

    plain = False
    passes: ModelPasses

    def __init__(
        self,
        passes: ModelPasses,
        most_bytes: int = CACHE_BYTES,
        joins: bool = True,
        at_once: int = CHUNK,
    ) -> None:
        self.passes = passes
        self._at_once = at_once
        self.states = KeptStates(most_bytes)
        model_type = passes.model.config.get_text_config().model_type
        self._pieces = model_type not in TOKEN_BY_TOKEN
        self._joins = joins
        self._places = joins and "position_ids" in passes.arguments
        self._most_padding = PADDING * nbytes(weights(passes.model))
        self._size = StateSize()
        self._unfinished: dict[Hashable, Answer] = {}

    @torch.inference_mode()
    def ask(self, questions: Sequence[Span]) -> list[Answer | None]:
        """Answer the questions that can be answered now: single tokens in one pass, others alone.

        An answer is None while its long text is still being read. Long texts are read in the order
        of the questions, with a pass for each chunk. The end of a chunk depends on its own text
        only, so that the result does not depend on other questions. Models of `TOKEN_BY_TOKEN` read
        a new text whole.
        """
        self.states.make_room()
        going = any(_goes_on(self.states.held.get(asked.lane), asked) for asked in questions)
        budget = _Budget(min(CHUNK, self._at_once) if going else self._at_once)
        answers = self._together(questions)
        return [answers.get(asked.lane) or self._answer(asked, budget) for asked in questions]

    @torch.inference_mode()
    def release(self, owner: Hashable) -> None:
        """Release the lane of `owner`. Its state stays while there is memory, for other texts."""
        note_cached(owner, self._unfinished.pop(owner, None))
        self.states.release(owner)

    def forget(self) -> None:
        """Drop all states."""
        self._unfinished = {}
        self.states.forget()

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of these texts' states, with a snapshot of each."""
        return 2 * sum(self._size.at(text.length) for text in texts)

    def join(self, limit: CacheLimit) -> None:
        """Keep the states within `limit`, which several models share, from now on."""
        limit.join(self.states)

    def _together(self, questions: Sequence[Span]) -> dict[Hashable, Answer]:
        """Return the answers of the questions that share a pass, by lane."""
        if not self._joins or len(questions) < 2:
            return {}
        whole = [one for one in questions if one.lane not in self._unfinished]
        states = [(self.states.held.get(one.lane), one) for one in whole]
        asked = {state: one for state, one in states if state and _lacks_one(state, one)}
        answers: dict[Hashable, Answer] = {}
        for group in groups([*asked], self._most_padding) if asked else ():
            if len(group) > 1:
                answers |= self._step(group, [asked[state] for state in group])
        return answers

    def _step(self, states: list[State], questions: list[Span]) -> dict[Hashable, Answer]:
        """Run one pass over the last token of each text."""
        # States stay joined from step to step, because joining copies them.
        joined = states[0].joined
        if joined is None or joined.states != states:
            try:
                joined = Joined(states)
            # The layers of this model break the rule of `Joined`, so no later try can succeed.
            except ValueError:
                self._joins = False
                return {}
        tokens = [(asked.continuation or asked.lane.prompt)[-1] for asked in questions]
        ids = torch.tensor(tokens, device=self.passes.device)[:, None]
        inputs, known = joined.inputs(self._places), self.passes.arguments
        arguments = {key: v.to(ids.device) for key, v in inputs.items() if key in known}
        for asked in questions:
            # A pass that fails leaves an invalid state, which no text may continue.
            del self.states.held[asked.lane]
        logits, _ = self.passes.run(
            [asked.lane.adapter for asked in questions],
            1,
            (),
            joined.cache,
            # The tokens follow whole prompts or end them, so vectors are added to all.
            None,
            input_ids=ids,
            **arguments,
        )
        number = self.passes.counted(len(tokens))
        answers: dict[Hashable, Answer] = {}
        rows = rows_of(self.passes.logprobs(logits))
        for state, asked, token, row in zip(states, questions, tokens, rows, strict=True):
            answers[asked.lane] = Answer([row], number, len(state.tokens))
            state.tokens.append(token)
            self.states.held[asked.lane] = state
        return answers

    def _answer(self, asked: Span, budget: _Budget) -> Answer | None:
        lane, text = asked.lane, asked.tokens
        # The last `count` tokens are read again even if a state holds them, because only a pass
        # gives their logits.
        known = len(text) - asked.count
        state = self.states.nearest(lane, lane.key, text, known)
        at = len(state.tokens)
        answer, redrawn = self._begun(asked, state), state is self.states.before.get(asked.lane)
        for end in self._ends(at, answer.cached, known, len(text)):
            if not budget.grants(end - at, len(text) - at):
                if answer.passes:
                    self._unfinished[asked.lane] = answer
                return None
            state = self._taken(state)
            if end == len(text):
                break
            self._read(state, text[at:end], lane, answer)
            at, redrawn = end, False
        # A snapshot after few new tokens would save too little. The asked tokens may be drafts,
        # which are rolled back to the state before them.
        if at == known and known - answer.cached >= SHORT_PREFIX:
            self.states.keep(state.copied(snapshot=True))
        elif asked.count > 1 and at and not redrawn:
            self.states.before[asked.lane] = state.copied(snapshot=True)
        logits, early = self._read(state, text[at:], lane, answer, asked.count, lane.exits)
        answer.rows = rows_of(self.passes.logprobs(logits))
        for layer, out in zip(lane.exits, early, strict=True):
            answer.exits[layer] = rows_of(self.passes.logprobs(out))
        return answer

    def _begun(self, asked: Span, state: State) -> Answer:
        """Return a new answer, or the answer that an earlier call began."""
        answer = self._unfinished.pop(asked.lane, None)
        if answer is None:
            return Answer((), cached=len(state.tokens))
        # Another text may have read more of this text since the last call.
        if (own := self.states.held.get(asked.lane)) is not None:
            answer.cached += max(0, len(state.tokens) - len(own.tokens))
        return answer

    def _ends(self, at: int, begun: int, known: int, length: int) -> Iterator[int]:
        """Yield the end of each pass over a text of `length` tokens, whose first `at` are read.

        Logits are asked only after the first `known` tokens; `begun` tokens were cached when
        reading began. If a snapshot is taken after the `known` tokens, these tokens are read in
        passes of their own, which end at multiples of a chunk. Otherwise one pass reads all tokens.
        If drafts among them are rolled back, an earlier snapshot is close enough to continue.
        """
        drafts = length - known > 1
        if known - begun >= SHORT_PREFIX or (
            drafts and (length - at > FEW_TOKENS or not self._pieces)
        ):
            while at < known:
                whole = not (self._pieces or at)
                at = known if whole else min(known, (at // CHUNK + 1) * CHUNK)
                yield at
        yield length

    def _taken(self, state: State) -> State:
        """Return a state that the lane may continue: its own, an idle one, or a snapshot's copy."""
        state.part()
        if state.cache is None:
            state.cache = new_cache(self.passes.model)
        if (nbytes := self.states.idle.pop(state, 0)) and state.snapshot:
            # Adding the state again makes it the most recently used.
            self.states.idle[state] = nbytes
        return state.copied() if state.snapshot else state

    def _read(
        self,
        state: State,
        tokens: list[int],
        lane: RequestLane,
        answer: Answer,
        count: int = 1,
        exits: tuple[int, ...] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits [1, count, vocab] of the last positions, and of the early exits."""
        # A pass that fails leaves an invalid state, which no text may continue.
        self.states.held.pop(lane, None)
        whole = self._pieces or not state.tokens
        parts = [tokens] if whole else [[token] for token in tokens]
        read = [self._pass(state, part, lane, answer, count, exits) for part in parts]
        self.states.held[lane] = state
        logits = torch.cat([out for out, _ in read[-count:]], dim=1)
        columns = zip(*(early for _, early in read[-count:]), strict=True)
        return logits, [torch.cat(column, dim=1) for column in columns]

    def _pass(
        self,
        state: State,
        tokens: list[int],
        lane: RequestLane,
        answer: Answer,
        count: int,
        exits: tuple[int, ...],
    ) -> tuple[Tensor, list[Tensor]]:
        ids = torch.tensor([tokens], device=self.passes.device)
        arguments: dict[str, Tensor] = {"input_ids": ids}
        count, at = min(count, len(tokens)), len(state.tokens)
        if self._places:
            arguments["position_ids"] = torch.arange(len(tokens), device=ids.device)[None] + at
        shifted = shifted_after(lane, at, ids)
        out = self.passes.run([lane.adapter], count, exits, state.cache, shifted, **arguments)
        answer.passes |= self.passes.counted(len(tokens))
        state.tokens += tokens
        self._size.learn(len(state.tokens), lambda: state.nbytes)
        return out


def _goes_on(state: State | None, asked: Span) -> bool:
    """Return True if a text is decoding: its prompt is read, and it lacks few tokens."""
    prompt = len(asked.lane.prompt)
    read = 0 if state is None else len(state.tokens)
    return read >= prompt and prompt + len(asked.continuation) - read <= FEW_TOKENS


def _lacks_one(state: State, asked: Span) -> bool:
    """Return True if one token is missing and only the logits after that token are asked."""
    text = asked.tokens
    if asked.count != 1 or asked.lane.exits or not len(state.tokens) == len(text) - 1 > 0:
        return False
    return state.begins(asked.lane.key, text, len(text))
