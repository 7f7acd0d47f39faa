"""Is a stream cumulative and incremental, and do all methods return the same answer?"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pydantic import BaseModel

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    REFERENCE,
    TIMEOUT,
    answer_text,
    argument_for,
    ask,
    call,
    each_chat_method,
    each_method,
    each_other_method,
    each_predict_method,
    each_streaming_method,
    in_thread,
    text_of,
)
from llamaindex_marith.testing.tooling import template


class Streams(LLMUnderTest):
    """All methods return one text: whole or streaming, sync or async."""

    @each_other_method
    async def test_every_way_says_the_same(self, method: str) -> None:
        llm = self.llm()
        text = await answer_text(llm, REFERENCE[method], self.question)
        assert len(text) >= 10, f"too short an answer for the suite, override `question`: {text!r}"
        assert await answer_text(llm, method, self.question) == text

    @each_streaming_method
    async def test_a_stream_holds_all_that_came(self, method: str) -> None:
        parts = await ask(self.llm(), method, self.question)
        text = ""
        for part in parts:
            assert isinstance(part.delta, str), f"a part's delta is {part.delta!r}"
            text += part.delta
            assert text_of(part) == text

    @each_streaming_method
    async def test_a_stream_comes_in_parts(self, method: str) -> None:
        parts = await ask(self.llm(), method, self.question)
        count = sum(bool(part.delta) for part in parts)
        assert count >= 3, f"{count} parts have text"

    @pytest.mark.parametrize("method", ["stream_complete", "stream_chat"])
    async def test_a_stream_comes_as_it_is_made(self, method: str) -> None:
        llm = self.lasting()
        await ask(self.llm(), "chat", self.question)  # loads the weights

        def first_and_last() -> tuple[float, float]:
            start, seconds = time.perf_counter(), []
            for _ in getattr(llm, method)(argument_for(method, self.question)):
                seconds.append(time.perf_counter() - start)
            return seconds[0], seconds[-1]

        first, last = await in_thread(first_and_last, TIMEOUT)
        self._assert_incremental(first, last)

    @pytest.mark.parametrize("method", ["astream_complete", "astream_chat"])
    async def test_a_stream_comes_as_it_is_made_to_who_waits(self, method: str) -> None:
        llm = self.lasting()
        await ask(self.llm(), "chat", self.question)  # loads the weights
        start, seconds = time.perf_counter(), []
        async for _ in await getattr(llm, method)(argument_for(method, self.question)):
            seconds.append(time.perf_counter() - start)
        self._assert_incremental(seconds[0], seconds[-1])

    @each_chat_method
    async def test_the_assistant_speaks(self, method: str) -> None:
        for part in await ask(self.llm(), method, self.question):
            assert part.message.role.value == "assistant"

    @each_method
    async def test_an_answer_does_not_repeat_its_prompt(self, method: str) -> None:
        question = f"{self.question} {self.question} {self.question} {self.question}"
        for part in await ask(self.llm(max_tokens=8), method, question):
            assert question not in text_of(part)

    @each_predict_method
    async def test_a_template_is_answered_as_its_words_are(self, method: str) -> None:
        llm = self.llm()
        reference = "chat" if llm.metadata.is_chat_model else "complete"
        expected = await answer_text(llm, reference, self.question)
        texts = await call(getattr(llm, method), template(self.question))
        assert "".join(texts) == expected

    @each_method
    async def test_a_raw_answer_can_be_written_as_json(self, method: str) -> None:
        for part in await ask(self.llm(), method, self.question):
            raw = part.raw.model_dump() if isinstance(part.raw, BaseModel) else part.raw
            assert raw is None or isinstance(raw, dict), f"raw is a {type(raw).__name__}"
            json.dumps(raw)

    @each_method
    async def test_an_answer_survives_json(self, method: str) -> None:
        for part in await ask(self.llm(), method, self.question):
            restored = type(part).model_validate_json(part.model_dump_json())
            assert same_answer(restored, part), f"{part!r} became {restored!r}"

    def _assert_incremental(self, first: float, last: float) -> None:
        assert last >= 0.1, f"too short an answer for the suite, override `lasting`: {last:.2f} s"
        assert first <= last / 2, f"the first part came after {first:.2f} of {last:.2f} seconds"


def same_answer(one: Any, other: Any) -> bool:
    """Whether two answers are equal in all that applications read."""
    return bool(
        text_of(one) == text_of(other)
        and one.delta == other.delta
        and one.additional_kwargs == other.additional_kwargs
        and getattr(one, "message", None) == getattr(other, "message", None)
    )
