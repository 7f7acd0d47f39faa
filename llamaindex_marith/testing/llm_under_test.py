"""What the suite needs from a package: how to make it, and what it supports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from llama_index.core.llms import LLM

PARAMETERS = ("max_tokens", "temperature", "seed", "stop")


class LLMUnderTest:
    """An LLM under test: override `make`, and whatever else differs for your LLM.

    The suite sets four parameters: `max_tokens`, `temperature`, `seed` and `stop`, a list of
    strings. `options` and `call_options` translate them into the package's own.
    The checks of a capability that is not claimed are skipped as "not offered"; what `metadata`
    states counts as a claim. No check asks how good an answer is.
    """

    question = "Name a river and say something about it."
    """A question whose answer has ten words or more at temperature 0."""

    system_prompts: tuple[str, ...] = (
        "You are a pirate. Answer like one.",
        "Be formal and very polite, and say a great deal.",
        "Answer in one word, in French.",
    )
    """At least one of these changes the answer to `question`."""

    supports_tools = False
    """Calls tools as a `FunctionCallingLLM`; `is_function_calling_model` claims it as well."""

    supports_usage = True
    """Reports how many tokens a call used."""

    supports_stop = True
    """Ends an answer before a stop string."""

    supports_seed = True
    """Samples the same answer for the same seed."""

    supports_threads = True
    """May be called from several threads at once."""

    supports_logprobs = False
    """Returns the log-probabilities of an answer's tokens, when `logprobs` asks for them."""

    supports_reasoning = False
    """Returns its reasoning apart from its answer; `thinking` makes such a model."""

    supports_images = False
    """Reads images; an LLM that does not must refuse them."""

    secrets: tuple[str, ...] = ()
    """Values given to `make` that must stay secret, such as a key."""

    context_window: int | None = None
    """How many tokens the model reads; None if this is not known here."""

    patience = 20.0
    """Seconds after which a call counts as hanging."""

    def make(self, **options: Any) -> LLM:
        """An LLM with these options: fields of LlamaIndex's `LLM`, and the package's own."""
        raise NotImplementedError(f"{type(self).__name__} does not define how to make its LLM")

    def options(self, **parameters: Any) -> dict[str, Any]:
        """The constructor's options for some of `max_tokens`, `temperature`, `seed` and `stop`."""
        return parameters

    def call_options(self, **parameters: Any) -> dict[str, Any]:
        """The options of a call for the same parameters."""
        return self.options(**parameters)

    def lasting(self) -> LLM:
        """An LLM whose answer to `question` takes a second or more."""
        return self.make(**self.options(max_tokens=400, temperature=0.0))

    def failing(self) -> tuple[LLM, str]:
        """An LLM and a question on which generation always fails."""
        llm = self.llm()
        return llm, self.too_long(llm)

    def too_long(self, llm: LLM) -> str:
        """A question of more tokens than the model reads."""
        return "again and " * (llm.metadata.context_window + 8)

    def logprobs(self, count: int) -> Mapping[str, Any]:
        """The options of a call for the logprobs of each token and of the `count` likeliest."""
        return {"logprobs": count}

    def thinking(self) -> tuple[LLM, str]:
        """An LLM, and a question about which it reasons before it answers."""
        return self.llm(), self.question

    def unloaded(self) -> LLM | None:
        """An LLM whose weights do not exist, so that loading them fails; None if there is none."""
        return None

    def tokenizer(self, llm: LLM) -> Callable[[str], list[Any]] | None:
        """What an application sets as `Settings.tokenizer` for this LLM; None if nothing."""
        return None

    def llm(self, **options: Any) -> LLM:
        """An LLM with these options; by default its answers are short, at temperature 0.

        `self.options` translates the four parameters; all other options go to `make` unchanged.
        """
        parameters = {"max_tokens": 6, "temperature": 0.0}
        parameters |= {name: options.pop(name) for name in PARAMETERS if name in options}
        return self.make(**self.options(**parameters), **options)

    def offered(self, claimed: bool, what: str) -> None:
        """Skip the check, unless the capability is claimed."""
        if not claimed:
            pytest.skip(f"not offered: {what}")

    def offered_tools(self) -> None:
        """Skip the check, unless tools are claimed."""
        claimed = self.supports_tools or self.llm().metadata.is_function_calling_model
        self.offered(claimed, "tools")

    def __init_subclass__(cls, **options: Any) -> None:
        """Mark async checks for pytest-asyncio, in whichever mode it runs."""
        super().__init_subclass__(**options)
        for name, check in vars(cls).items():
            if name.startswith("test_") and inspect.iscoroutinefunction(check):
                pytest.mark.asyncio(check)
