"""The conformance suite on `llama-index-llms-huggingface`, over the weights of pocket."""

from __future__ import annotations

from typing import Any

from llama_index.core.llms import LLM
from llama_index.llms.huggingface import HuggingFaceLLM
from transformers import AutoTokenizer

from llamaindex_marith.testing import LLMConformance
from marith.scoring.checkpoints.locate import locate

POCKET = locate("pocket")
TOKENIZER = AutoTokenizer.from_pretrained(POCKET)
SET_LATER = ("rate_limiter",)  # fields of LlamaIndex's that its constructor does not take


class TestHuggingFaceLLM(LLMConformance):
    """Made as its page says for a chat model, with the template of its tokenizer.

    A completion passes its prompt to the model unchanged, so the question is a text to continue.
    """

    question = "I think that"

    supports_usage = False
    supports_seed = False
    context_window = 1024
    patience = 5.0

    def make(self, **options: Any) -> LLM:
        """Loaded from a directory."""
        later = {name: options.pop(name) for name in SET_LATER if name in options}
        llm = HuggingFaceLLM(
            model_name=POCKET,
            tokenizer_name=POCKET,
            context_window=1024,
            is_chat_model=True,
            device_map="cpu",
            **options,
        )
        for name, value in later.items():
            setattr(llm, name, value)
        return llm

    def options(
        self,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: list[str] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        """Its own options; those that it does not have go to `generate` through it."""
        options: dict[str, Any] = {} if max_tokens is None else {"max_new_tokens": max_tokens}
        generate: dict[str, Any] = {}
        if temperature is not None:
            generate = {"do_sample": True, "temperature": temperature}
        if temperature == 0:
            generate = {"do_sample": False}
        if stop is not None:
            generate |= {"stop_strings": stop, "tokenizer": TOKENIZER}
        return {**options, **({"generate_kwargs": generate} if generate else {})}

    def call_options(self, **parameters: Any) -> dict[str, Any]:
        """The same; a call takes the options of `generate` directly."""
        options = self.options(**parameters)
        return {**options.pop("generate_kwargs", {}), **options}

    def lasting(self) -> LLM:
        """The answer of so small a model is short, unless it has a minimum length."""
        generate = {"do_sample": False, "min_new_tokens": 200}
        return self.make(max_new_tokens=200, generate_kwargs=generate)

    def failing(self) -> tuple[LLM, str]:
        """`generate` refuses a negative temperature, in the thread where it runs."""
        return self.make(generate_kwargs={"do_sample": True, "temperature": -1.0}), self.question
