"""Does each method for structured output return objects of a schema, whole or partial?"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import CHAT_METHODS, ask, call, text_of
from llamaindex_marith.testing.observers import Counter, recorded_events
from llamaindex_marith.testing.tooling import (
    Fleet,
    RiverChoice,
    Voyage,
    ignore_core_deprecations,
    template,
)

PREDICT_OBJECT_METHODS = (
    "structured_predict",
    "stream_structured_predict",
    "astructured_predict",
    "astream_structured_predict",
)
STREAM_OBJECT_METHODS = ("stream_structured_predict", "astream_structured_predict")
# LlamaIndex's StructuredLLM cannot stream completions.
STRUCTURED_LLM_METHODS = (*CHAT_METHODS, "complete", "acomplete")
PROMPT = PromptTemplate("Plan a voyage on the {river}, please.")
OBJECT_TOKENS = 200  # more than an object of the schemas here has

each_object_method = pytest.mark.parametrize("method", PREDICT_OBJECT_METHODS)


class Structured(LLMUnderTest):
    """Objects. Only for LLMs that claim tools: LlamaIndex makes objects from tool calls."""

    @each_object_method
    async def test_an_object_is_made(self, method: str) -> None:
        self.offered_tools()
        objects = await self._objects(self._object_llm(), method, Fleet)
        assert isinstance(objects[-1], Fleet)

    @pytest.mark.parametrize("method", PREDICT_OBJECT_METHODS[1:])
    async def test_every_way_makes_the_same_object(self, method: str) -> None:
        self.offered_tools()
        llm = self._object_llm()
        expected = await self._objects(llm, "structured_predict", Voyage)
        assert (await self._objects(self._object_llm(), method, Voyage))[-1] == expected[-1]

    @pytest.mark.parametrize("method", STREAM_OBJECT_METHODS)
    async def test_an_object_grows(self, method: str) -> None:
        self.offered_tools()
        objects = await self._objects(self._object_llm(), method, Fleet)
        assert len(objects) > 1
        assert all(isinstance(each, BaseModel) for each in objects)
        lengths = [len(str(each.model_dump(exclude_none=True))) for each in objects]
        assert lengths[0] < lengths[-1]
        assert sum(b < a for a, b in pairwise(lengths)) <= len(lengths) // 4

    @each_object_method
    async def test_an_object_starts_and_ends_once(self, method: str) -> None:
        self.offered_tools()
        llm = self._object_llm()
        with recorded_events() as recorded:
            objects = await self._objects(llm, method, RiverChoice)
        outer = [name for name in recorded.names("Structured") if "InProgress" not in name]
        assert outer == ["LLMStructuredPredictStartEvent", "LLMStructuredPredictEndEvent"]
        partial = len(objects) if "stream" in method else 0
        assert len(recorded.names("StructuredPredictInProgress")) == partial
        assert [name for name in recorded.ends() if "Start" in name] == ["LLMChatStartEvent"]

    @each_object_method
    async def test_what_an_object_cost_is_counted(self, method: str) -> None:
        self.offered_tools()
        self.offered(self.supports_usage, "usage")
        prompt, answer = await self._token_counts(method)
        assert prompt > 0
        assert answer > 0

    @each_object_method
    async def test_the_system_prompt_is_read_for_an_object(self, method: str) -> None:
        self.offered_tools()
        self.offered(self.supports_usage, "usage")
        text = self.system_prompts[1]
        plain = await self._token_counts(method)
        counts = await self._token_counts(method, system_prompt=text)
        assert counts[0] > plain[0], "the prompt is as long without the system prompt"
        assert counts == await self._token_counts("structured_predict", system_prompt=text)

    @each_object_method
    async def test_a_calls_options_win_for_an_object(self, method: str) -> None:
        self.offered_tools()
        seed = {"seed": 1} if self.supports_seed else {}
        llm = self.llm(max_tokens=OBJECT_TOKENS, temperature=3.0, **seed)
        expected = (await self._objects(self._object_llm(), method, Voyage))[-1]
        options = self.call_options(temperature=0.0)
        before = repr(options)
        voyage = (await self._objects(llm, method, Voyage, llm_kwargs=options))[-1]
        assert voyage == expected, "the call's temperature is ignored"
        assert repr(options) == before

    @ignore_core_deprecations
    @pytest.mark.parametrize("method", STRUCTURED_LLM_METHODS)
    async def test_a_structured_llm_answers_in_json(self, method: str) -> None:
        self.offered_tools()
        llm = self._object_llm().as_structured_llm(RiverChoice)
        parts = await ask(llm, method, "Plan a voyage on the Ebro, please.")
        assert isinstance(parts[-1].raw, RiverChoice)
        assert RiverChoice.model_validate_json(text_of(parts[-1])) == parts[-1].raw

    async def test_a_structured_llm_predicts_in_json(self) -> None:
        self.offered_tools()
        llm = self._object_llm().as_structured_llm(RiverChoice)
        for method in ("predict", "apredict"):
            (text,) = await call(getattr(llm, method), template(self.question))
            RiverChoice.model_validate(json.loads(text))

    def _object_llm(self) -> Any:
        return self.llm(max_tokens=OBJECT_TOKENS)

    async def _objects(
        self, llm: Any, method: str, schema: type[BaseModel], **options: Any
    ) -> list[Any]:
        """The one object that this method returns, or all partial objects of its stream."""
        return await call(getattr(llm, method), schema, PROMPT, river="Ebro", **options)

    async def _token_counts(self, method: str, **options: Any) -> tuple[int, int]:
        """The tokens of prompt and answer for an object, from LlamaIndex's token counter."""
        counter = Counter()
        llm = self.llm(max_tokens=OBJECT_TOKENS, callback_manager=counter.manager(), **options)
        await self._objects(llm, method, RiverChoice)
        return counter.counts
