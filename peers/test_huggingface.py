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
LATER = ("rate_limiter",)  # fields of LlamaIndex's that its constructor has no room for


class TestHuggingFaceLLM(LLMConformance):
    """As its page says to make one for a chat model: its tokenizer knows the template.

    A completion goes to its model as it stands, so the question is one that has a continuation.
    """

    question = "I think that"

    supports_usage = False
    supports_seed = False
    context_window = 1024
    patience = 5.0

    def make(self, **options: Any) -> LLM:
        """By a directory, with the template of its tokenizer for conversations."""
        later = {name: options.pop(name) for name in LATER if name in options}
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
        """Its own words; what it has none for, in those of `generate`, which it hands on."""
        told: dict[str, Any] = {} if max_tokens is None else {"max_new_tokens": max_tokens}
        generate: dict[str, Any] = {}
        if temperature is not None:
            generate = {"do_sample": True, "temperature": temperature}
        if temperature == 0:
            generate = {"do_sample": False}
        if stop is not None:
            generate |= {"stop_strings": stop, "tokenizer": TOKENIZER}
        return {**told, **({"generate_kwargs": generate} if generate else {})}

    def call_options(self, **words: Any) -> dict[str, Any]:
        """What LlamaIndex's other LLMs are told, and `generate` itself."""
        told = self.options(**words)
        return {**told.pop("generate_kwargs", {}), **told}

    def lasting(self) -> LLM:
        """So small a model soon comes to an end, unless it must not."""
        generate = {"do_sample": False, "min_new_tokens": 200}
        return self.make(max_new_tokens=200, generate_kwargs=generate)

    def failing(self) -> tuple[LLM, str]:
        """`generate` refuses this, in the thread where it runs."""
        return self.make(generate_kwargs={"do_sample": True, "temperature": -1.0}), self.question
