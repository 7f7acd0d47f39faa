"""What the harness gives to be read, as the engine is asked: text, its windows, or a chat."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from marith.engine.engine import Engine
from marith.errors import RequestError
from marith.evals.harness.bound_formula import BoundFormula
from marith.formula.tree.nodes import Formula

Messages: TypeAlias = "tuple[Mapping[str, Any], ...]"

_CHAT = '{"messages": '  # how a chat begins that `chat_text` has written


@dataclass(frozen=True, slots=True)
class HarnessPrompt:
    """A prompt for a formula, and given tokens after it; the first `skip` do not count."""

    prompt: str | Messages
    formula: Formula
    tokens: tuple[int, ...] = ()
    skip: int = 0


def chat_text(messages: Sequence[Mapping[str, Any]], complete: bool) -> str:
    """Messages as JSON text: the harness keeps contexts as texts.

    Unless the messages are `complete`, the last one is to be continued.
    """
    return json.dumps({"messages": list(messages), "complete": complete}, ensure_ascii=False)


class Contexts:
    """Turns contexts into prompts of one formula. Keeps count of those that were too long."""

    def __init__(self, engine: Engine, formula: BoundFormula) -> None:
        self._engine = engine
        self._formula = formula
        systems = [len(engine.encode(f"{system}\n")) for system in formula.systems if system]
        whole = formula.context_length(engine.context_length)
        self.max_length = whole - max(systems, default=0) - 2  # one to start from, one to predict
        if self.max_length < 2:
            raise RequestError(f"the system prompts leave no room in a context of {whole} tokens")
        self.cut = 0

    def pair(self, context: str, continuation: str) -> HarnessPrompt:
        """A continuation to be scored after a context, divided as the harness's own models do.

        White space at the context's end belongs to the continuation, and both are read together.
        """
        messages, begun = _chat(context)
        if messages:
            tokens = self._engine.encode(begun + continuation)
            first = len(self._engine.encode(begun))
            return HarnessPrompt(messages, self._formula.chat, tuple(tokens), first)
        stripped = context.rstrip()
        before = self._engine.encode(stripped)
        tokens = self._engine.encode(context + continuation)[len(before) :]
        prompt = self._fitting(stripped, before, self.max_length + 1 - len(tokens))
        return HarnessPrompt(prompt, self._formula.raw, tuple(tokens))

    def windows(self, text: str) -> list[HarnessPrompt]:
        """A whole text in windows, each token once, as the harness's rolling likelihood has it."""
        tokens = self._engine.encode(text)
        windows = get_rolling_token_windows(tokens, -1, self.max_length, context_len=1)
        prompts = []
        for before, window in map(make_disjoint_window, windows):
            prompt = "" if before == [-1] else self._tail(before, len(before))
            prompts.append(HarnessPrompt(prompt, self._formula.raw, tuple(window)))
        return prompts

    def opening(self, context: str, room: int) -> HarnessPrompt:
        """A prompt to be answered, with room for so many tokens.

        Raises RequestError for so much room that nothing could be read, and for an answer that
        a chat has begun already.
        """
        if room >= self.max_length:
            raise RequestError(
                f"max_gen_toks is {room}, and a context holds {self.max_length} tokens with it"
            )
        messages, begun = _chat(context)
        if begun:
            raise RequestError(f"a chat's answer cannot begin with a gen_prefix, {begun!r}")
        if messages:
            return HarnessPrompt(messages, self._formula.chat)
        tokens = self._engine.encode(context)
        return HarnessPrompt(
            self._fitting(context, tokens, self.max_length - room), self._formula.raw
        )

    def shorter(self, prompt: HarnessPrompt) -> HarnessPrompt | None:
        """A chat without its oldest turn, system messages excepted; None where nothing can go."""
        if isinstance(prompt.prompt, str):
            return None
        turns = [i for i, message in enumerate(prompt.prompt) if message["role"] != "system"]
        if len(turns) < 2:
            return None
        self.cut += 1
        kept = (*prompt.prompt[: turns[0]], *prompt.prompt[turns[0] + 1 :])
        return HarnessPrompt(kept, prompt.formula, prompt.tokens, prompt.skip)

    def _fitting(self, text: str, tokens: list[int], most: int) -> str:
        """A text, or where it has more than `most` tokens its end."""
        if len(tokens) <= most:
            return text
        self.cut += 1
        return self._tail(tokens, most)

    def _tail(self, tokens: list[int], most: int) -> str:
        """The longest end of a text, of at most so many tokens, that is read as those tokens."""
        for start in range(len(tokens) - max(0, most), len(tokens)):
            text = self._engine.decode(tokens[start:])
            if self._engine.encode(text) == tokens[start:]:
                return text
        return ""


def _chat(context: str) -> tuple[Messages, str]:
    """The messages of a context, and how its answer begins; no messages for raw text."""
    if not context.startswith(_CHAT):
        return (), ""
    try:
        data, end = json.JSONDecoder().raw_decode(context)
        messages, complete = tuple(data["messages"]), data["complete"]
    except (ValueError, KeyError, TypeError):
        return (), ""  # a task's own text that begins alike
    if complete:
        return messages, context[end:]
    return messages[:-1], str(messages[-1]["content"]) + context[end:]
