"""Our conformance suite for LlamaIndex's LLMs on `OpenAILike` over `marith serve`; run by pytest.

`MARITH_URL=… PYTHONPATH=core:. pytest tools/clients/openai_like_suite.py`, where marith's own
imports are installed beside the client; torch is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from llama_index.core.llms import LLM
from llama_index.llms.openai_like import OpenAILike

from llamaindex_marith.testing import LLMConformance
from tools.clients.openai_like_failures import reason

URL, KEY = os.environ["MARITH_URL"], "sk-client-key"
WARMEST = 2.0  # OpenAI's bound of a temperature


class TestOpenAILike(LLMConformance):
    """A chat model that calls tools, as docs/how-to/serve.md says to make it."""

    supports_logprobs = True
    supports_reasoning = True
    context_window = 1024
    secrets = (KEY,)

    @pytest.fixture(autouse=True)
    def _expect_failures(self, request: pytest.FixtureRequest) -> None:
        """A listed case that passes fails the run, as one that is not listed and fails does."""
        check, _, case = request.node.name.rstrip("]").partition("[")
        if why := reason(check, case):
            request.applymarker(pytest.mark.xfail(reason=why, strict=True))

    def make(self, **options: Any) -> LLM:
        usage = {"stream_options": {"include_usage": True}}
        more = {**usage, **options.pop("additional_kwargs", {})}
        defaults = {"api_base": f"{URL}/v1", "api_key": KEY, "model": "pocket"}
        return OpenAILike(
            context_window=1024,
            is_chat_model=True,
            is_function_calling_model=True,
            additional_kwargs=more,
            **{**defaults, **options},
        )

    def options(self, **parameters: Any) -> dict[str, Any]:
        """A seed and stop strings are no fields of its own."""
        parameters = self.call_options(**parameters)
        more = {name: parameters.pop(name) for name in ("seed", "stop") if name in parameters}
        return {**parameters, **({"additional_kwargs": more} if more else {})}

    def call_options(self, **parameters: Any) -> dict[str, Any]:
        if "temperature" in parameters:
            parameters["temperature"] = min(parameters["temperature"], WARMEST)
        return parameters

    def logprobs(self, count: int) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": count}

    def lasting(self) -> LLM:
        """At a low temperature the answer of so small a model would be too short."""
        return self.make(**self.options(temperature=WARMEST, seed=1, max_tokens=160))

    def unloaded(self) -> LLM:
        return self.make(api_base="http://127.0.0.1:9/v1")

    def thinking(self) -> tuple[LLM, str]:
        return self.make(model="thinking", **self.options(temperature=0.0)), self.question

    def tokenizer(self, llm: LLM) -> Callable[[str], list[Any]]:
        """The server's own."""
        web = httpx.Client(base_url=URL, headers={"authorization": f"Bearer {KEY}"})

        def tokens(text: str) -> list[Any]:
            body = {"prompt": text, "add_special_tokens": False}
            return list(web.post("/tokenize", json=body).raise_for_status().json()["tokens"])

        return tokens


def test_texts_are_continued() -> None:
    """Without its flags it sends texts to `/v1/completions`."""
    llm = OpenAILike(api_base=f"{URL}/v1", api_key=KEY, model="pocket", max_tokens=12)
    text = llm.complete("The sea is", seed=1).text
    assert text
    assert [*llm.stream_complete("The sea is", seed=1)][-1].text == text
