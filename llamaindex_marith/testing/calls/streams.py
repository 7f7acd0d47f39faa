"""Is a stream cumulative, does it come as it is made, and does every way say the same?"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pydantic import BaseModel

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.tooling import template
from llamaindex_marith.testing.ways import (
    FIRST,
    HANGS,
    ask,
    call,
    each_chat,
    each_other_way,
    each_prediction,
    each_stream,
    each_way,
    in_thread,
    in_words,
    says,
    text_of,
)


class Streams(LLMUnderTest):
    """One text, whole or in parts, from a thread or from a loop."""

    @each_other_way
    async def test_every_way_says_the_same(self, way: str) -> None:
        llm = self.llm()
        text = await says(llm, FIRST[way], self.question)
        assert len(text) >= 10, f"too short an answer for the suite, override `question`: {text!r}"
        assert await says(llm, way, self.question) == text

    @each_stream
    async def test_a_stream_holds_all_that_came(self, way: str) -> None:
        parts = await ask(self.llm(), way, self.question)
        text = ""
        for part in parts:
            assert isinstance(part.delta, str), f"a part's delta is {part.delta!r}"
            text += part.delta
            assert text_of(part) == text

    @each_stream
    async def test_a_stream_comes_in_parts(self, way: str) -> None:
        parts = await ask(self.llm(), way, self.question)
        count = sum(bool(part.delta) for part in parts)
        assert count >= 3, f"{count} parts came"

    @pytest.mark.parametrize("way", ["stream_complete", "stream_chat"])
    async def test_a_stream_comes_as_it_is_made(self, way: str) -> None:
        llm = self.lasting()
        await ask(self.llm(), "chat", self.question)  # weights load

        def times() -> tuple[float, float]:
            begun, came = time.perf_counter(), []
            for _ in getattr(llm, way)(in_words(way, self.question)):
                came.append(time.perf_counter() - begun)
            return came[0], came[-1]

        first, last = await in_thread(times, HANGS)
        self._spread(first, last)

    @pytest.mark.parametrize("way", ["astream_complete", "astream_chat"])
    async def test_a_stream_comes_as_it_is_made_to_who_waits(self, way: str) -> None:
        llm = self.lasting()
        await ask(self.llm(), "chat", self.question)
        begun, came = time.perf_counter(), []
        async for _ in await getattr(llm, way)(in_words(way, self.question)):
            came.append(time.perf_counter() - begun)
        self._spread(came[0], came[-1])

    @each_chat
    async def test_the_assistant_speaks(self, way: str) -> None:
        for part in await ask(self.llm(), way, self.question):
            assert part.message.role.value == "assistant"

    @each_way
    async def test_an_answer_does_not_repeat_its_prompt(self, way: str) -> None:
        question = f"{self.question} {self.question} {self.question} {self.question}"
        for part in await ask(self.llm(max_tokens=8), way, question):
            assert question not in text_of(part)

    @each_prediction
    async def test_a_template_is_answered_as_its_words_are(self, way: str) -> None:
        llm = self.llm()
        first = "chat" if llm.metadata.is_chat_model else "complete"
        text = await says(llm, first, self.question)
        told = await call(getattr(llm, way), template(self.question))
        assert "".join(told) == text

    @each_way
    async def test_a_raw_answer_can_be_written_as_json(self, way: str) -> None:
        for part in await ask(self.llm(), way, self.question):
            raw = part.raw.model_dump() if isinstance(part.raw, BaseModel) else part.raw
            assert raw is None or isinstance(raw, dict), f"raw is a {type(raw).__name__}"
            json.dumps(raw)

    @each_way
    async def test_an_answer_survives_json(self, way: str) -> None:
        for part in await ask(self.llm(), way, self.question):
            again = type(part).model_validate_json(part.model_dump_json())
            assert same(again, part), f"{again!r} was {part!r}"

    def _spread(self, first: float, last: float) -> None:
        assert last >= 0.1, f"too short an answer for the suite, override `lasting`: {last:.2f} s"
        assert first <= last / 2, f"the first part came after {first:.2f} of {last:.2f} seconds"


def same(one: Any, other: Any) -> bool:
    """Whether two answers say the same, in what applications read of them."""
    return bool(
        text_of(one) == text_of(other)
        and one.delta == other.delta
        and one.additional_kwargs == other.additional_kwargs
        and getattr(one, "message", None) == getattr(other, "message", None)
    )
