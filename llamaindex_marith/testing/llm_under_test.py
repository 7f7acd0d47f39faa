"""What a package tells the suite of its LLM; all that is particular to a model is said here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from llama_index.core.llms import LLM

WORDS = ("max_tokens", "temperature", "seed", "stop")


class LLMUnderTest:
    """An LLM under test: override `make`, and whatever else is not as it stands here.

    The suite says four things of how an answer is made: `max_tokens`, `temperature`, `seed` and
    `stop`, a list of strings. `options` and `call_options` are a package's words for them.
    A capability that is not claimed is skipped as "not offered"; what `metadata` says is a claim.
    No check asks how good an answer is.
    """

    question = "Name a river and say something about it."
    """Something that is answered with ten words or more, at temperature 0."""

    system_prompts: tuple[str, ...] = (
        "You are a pirate. Answer like one.",
        "Be formal and very polite, and say a great deal.",
        "Answer in one word, in French.",
    )
    """One of these, at the least, changes the answer to `question`."""

    supports_tools = False
    """Calls tools as a `FunctionCallingLLM`; claimed by `is_function_calling_model` as well."""

    supports_usage = True
    """Tells how many tokens a call cost."""

    supports_stop = True
    """Ends an answer before a string that is given."""

    supports_seed = True
    """Draws the same answer again for the same seed."""

    supports_threads = True
    """May be asked by several threads at once."""

    supports_logprobs = False
    """Tells how likely the tokens of an answer were, where `logprobs` asks for it."""

    supports_reasoning = False
    """Tells its thoughts apart from its answer; `thinking` makes such a model."""

    supports_images = False
    """Reads images; an LLM that does not must refuse them."""

    secrets: tuple[str, ...] = ()
    """Values given to `make` that nobody may be told, such as a key."""

    context_window: int | None = None
    """How many tokens the model reads, if that is known here."""

    patience = 20.0
    """Seconds after which a call is held to hang."""

    def make(self, **options: Any) -> LLM:
        """An LLM with these fields of LlamaIndex's `LLM` and these options of the package's own."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to make its LLM")

    def options(self, **words: Any) -> dict[str, Any]:
        """The constructor's words for some of `max_tokens`, `temperature`, `seed` and `stop`."""
        return words

    def call_options(self, **words: Any) -> dict[str, Any]:
        """A call's words for the same."""
        return self.options(**words)

    def lasting(self) -> LLM:
        """An LLM whose answer to `question` takes a second or more."""
        return self.make(**self.options(max_tokens=400, temperature=0.0))

    def failing(self) -> tuple[LLM, str]:
        """An LLM and a question that it cannot but fail on, once it is asked."""
        llm = self.llm()
        return llm, self.too_long(llm)

    def too_long(self, llm: LLM) -> str:
        """A question of more tokens than the model reads."""
        return "again and " * (llm.metadata.context_window + 8)

    def logprobs(self, count: int) -> Mapping[str, Any]:
        """A call's words for: how likely each token was, and the `count` likeliest in its place."""
        return {"logprobs": count}

    def thinking(self) -> tuple[LLM, str]:
        """An LLM and a question on which it thinks before it answers."""
        return self.llm(), self.question

    def unloaded(self) -> LLM | None:
        """An LLM whose weights are nowhere to be found: whoever loads them fails."""
        return None

    def tokenizer(self, llm: LLM) -> Callable[[str], list[Any]] | None:
        """What to give to `Settings.tokenizer` beside the LLM."""
        return None

    def llm(self, **said: Any) -> LLM:
        """An LLM of short answers at temperature 0, where nothing else is said.

        Of `said`, the four words are translated, and all else is handed to `make`.
        """
        words = {"max_tokens": 6, "temperature": 0.0}
        words |= {name: said.pop(name) for name in WORDS if name in said}
        return self.make(**self.options(**words), **said)

    def offered(self, claimed: bool, what: str) -> None:
        """Skip the check of a capability that nobody claims."""
        if not claimed:
            pytest.skip(f"not offered: {what}")

    def offered_tools(self) -> None:
        """Skip the checks of tools, unless they are claimed."""
        claimed = self.supports_tools or self.llm().metadata.is_function_calling_model
        self.offered(claimed, "tools")

    def __init_subclass__(cls, **options: Any) -> None:
        """Hand checks that wait to pytest-asyncio, in whichever mode it runs."""
        super().__init_subclass__(**options)
        for name, check in vars(cls).items():
            if name.startswith("test_") and inspect.iscoroutinefunction(check):
                pytest.mark.asyncio(check)
