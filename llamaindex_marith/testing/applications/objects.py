"""Is an object of a schema made, whole or growing, by each way to ask for one?"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.observers import Counter, recorded_events
from llamaindex_marith.testing.tooling import Choice, Fleet, Voyage, cores_own, template
from llamaindex_marith.testing.ways import CHATS, call, in_words, text_of

MAKING = (
    "structured_predict",
    "stream_structured_predict",
    "astructured_predict",
    "astream_structured_predict",
)
STRUCTURED = (*CHATS, "complete", "acomplete")  # core's StructuredLLM streams chats alone
ASKED = PromptTemplate("Plan a voyage on the {river}, please.")
ENOUGH = 200  # tokens: an object of the schemas here is shorter

each_making = pytest.mark.parametrize("way", MAKING)


class Structured(LLMUnderTest):
    """Objects, for who claims tools: that is what LlamaIndex makes them of."""

    @each_making
    async def test_an_object_is_made(self, way: str) -> None:
        self.offered_tools()
        told = await self._made(self._making(), way, Fleet)
        assert isinstance(told[-1], Fleet)

    @pytest.mark.parametrize("way", MAKING[1:])
    async def test_every_way_makes_the_same_object(self, way: str) -> None:
        self.offered_tools()
        truth = await self._made(self._making(), "structured_predict", Voyage)
        assert (await self._made(self._making(), way, Voyage))[-1] == truth[-1]

    @pytest.mark.parametrize("way", [way for way in MAKING if "stream" in way])
    async def test_an_object_grows(self, way: str) -> None:
        self.offered_tools()
        told = await self._made(self._making(), way, Fleet)
        assert len(told) > 1
        assert all(isinstance(each, BaseModel) for each in told)
        filled = [len(str(each.model_dump(exclude_none=True))) for each in told]
        assert filled[0] < filled[-1]
        assert sum(b < a for a, b in pairwise(filled)) <= len(filled) // 4

    @each_making
    async def test_an_object_starts_and_ends_once(self, way: str) -> None:
        self.offered_tools()
        llm = self._making()
        with recorded_events() as recorded:
            told = await self._made(llm, way, Choice)
        frames = [name for name in recorded.names("Structured") if "InProgress" not in name]
        assert frames == ["LLMStructuredPredictStartEvent", "LLMStructuredPredictEndEvent"]
        growing = len(told) if "stream" in way else 0
        assert len(recorded.names("StructuredPredictInProgress")) == growing
        assert [name for name in recorded.ends() if "Start" in name] == ["LLMChatStartEvent"]

    @each_making
    async def test_what_an_object_cost_is_counted(self, way: str) -> None:
        self.offered_tools()
        self.offered(self.supports_usage, "usage")
        prompt, answer = await self._cost(way)
        assert prompt > 0
        assert answer > 0

    @each_making
    async def test_the_system_prompt_is_read_for_an_object(self, way: str) -> None:
        self.offered_tools()
        self.offered(self.supports_usage, "usage")
        text = self.system_prompts[1]
        plain, told = await self._cost(way), await self._cost(way, system_prompt=text)
        assert told[0] > plain[0], "the prompt is as long without the system prompt"
        assert told == await self._cost("structured_predict", system_prompt=text)

    @each_making
    async def test_a_calls_options_win_for_an_object(self, way: str) -> None:
        self.offered_tools()
        seed = {"seed": 1} if self.supports_seed else {}
        warm = self.llm(max_tokens=ENOUGH, temperature=3.0, **seed)
        truth = (await self._made(self._making(), way, Voyage))[-1]
        options = self.call_options(temperature=0.0)
        before = repr(options)
        told = (await self._made(warm, way, Voyage, llm_kwargs=options))[-1]
        assert told == truth, "as warm as without it"
        assert repr(options) == before

    @cores_own
    @pytest.mark.parametrize("way", STRUCTURED)
    async def test_a_structured_llm_answers_in_json(self, way: str) -> None:
        self.offered_tools()
        llm = self._making().as_structured_llm(Choice)
        told = await call(getattr(llm, way), in_words(way, "Plan a voyage on the Ebro, please."))
        assert isinstance(told[-1].raw, Choice)
        assert Choice.model_validate_json(text_of(told[-1])) == told[-1].raw

    async def test_a_structured_llm_predicts_in_json(self) -> None:
        self.offered_tools()
        llm = self._making().as_structured_llm(Choice)
        for way in ("predict", "apredict"):
            told = await call(getattr(llm, way), template(self.question))
            Choice.model_validate(json.loads(told[0]))

    def _making(self) -> Any:
        return self.llm(max_tokens=ENOUGH)

    async def _made(self, llm: Any, way: str, schema: type[BaseModel], **options: Any) -> list[Any]:
        return await call(getattr(llm, way), schema, ASKED, river="Ebro", **options)

    async def _cost(self, way: str, **options: Any) -> tuple[int, int]:
        """Tokens that an object took, as a token counter has them."""
        counter = Counter()
        llm = self.llm(max_tokens=ENOUGH, callback_manager=counter.manager(), **options)
        await self._made(llm, way, Choice)
        return counter.counts
