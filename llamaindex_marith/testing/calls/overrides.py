"""Does an option of a call win, is an unknown one refused, do arguments stay unchanged?"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    REFERENCE,
    answer_text,
    argument_for,
    ask,
    call,
    each_chat_method,
    each_method,
    expect_error,
    text_of,
)


class Overrides(LLMUnderTest):
    """An option of a call holds for this call, and for no later one."""

    @each_method
    async def test_a_call_may_say_where_to_stop(self, method: str) -> None:
        self.offered(self.supports_stop, "stop")
        llm = self.llm()
        whole, stop = await self._stop_string(llm, method)
        parts = await ask(llm, method, self.question, **self.call_options(stop=[stop]))
        self._assert_stopped_before(stop, parts, whole)

    @each_method
    async def test_an_llm_may_be_made_to_stop(self, method: str) -> None:
        self.offered(self.supports_stop, "stop")
        whole, stop = await self._stop_string(self.llm(), method)
        parts = await ask(self.llm(stop=["\x00no such text", stop]), method, self.question)
        self._assert_stopped_before(stop, parts, whole)

    @each_method
    async def test_a_call_may_say_how_long(self, method: str) -> None:
        llm = self.llm()
        whole = await answer_text(llm, method, self.question)
        short = await answer_text(llm, method, self.question, **self.call_options(max_tokens=4))
        assert whole.startswith(short), f"{whole!r} does not start with {short!r}"
        assert len(short) < len(whole), "the call's max_tokens is ignored"

    @each_method
    async def test_a_call_may_say_how_warm(self, method: str) -> None:
        expected = await answer_text(self.llm(), method, self.question)
        llm = self.llm(temperature=3.0)
        options = self.call_options(temperature=0.0)
        texts = [await answer_text(llm, method, self.question, **options) for _ in range(2)]
        assert texts == [expected] * 2, "the call's temperature is ignored"

    @each_method
    async def test_a_call_may_say_its_seed(self, method: str) -> None:
        self.offered(self.supports_seed, "seed")
        llm = self.llm(temperature=3.0, seed=1, max_tokens=6)
        seeds = [self.call_options(seed=seed) for seed in (2, 2, 3, 4)]
        texts = [await answer_text(llm, method, self.question, **seed) for seed in seeds]
        assert texts[0] == texts[1]
        assert len(set(texts)) > 1, "the answer is the same for every seed"

    @each_method
    async def test_an_llm_with_a_seed_repeats_itself(self, method: str) -> None:
        self.offered(self.supports_seed, "seed")
        llm = self.llm(temperature=3.0, seed=1, max_tokens=6)
        expected = await answer_text(llm, REFERENCE[method], self.question)
        assert await answer_text(llm, method, self.question) == expected

    @each_method
    async def test_a_calls_options_are_forgotten_after_it(self, method: str) -> None:
        llm = self.llm()
        before = await answer_text(llm, method, self.question)
        parameters: dict[str, Any] = {"max_tokens": 3, "temperature": 2.0}
        parameters |= {"stop": ["e"]} if self.supports_stop else {}
        await ask(llm, method, self.question, **self.call_options(**parameters))
        assert await answer_text(llm, method, self.question) == before

    @each_method
    async def test_an_unknown_option_of_a_call_is_refused(self, method: str) -> None:
        llm = self.llm()
        with expect_error(ValueError, TypeError, case="an unknown option"):
            await ask(llm, method, self.question, temprature_of_no_model=0.5)

    def test_an_unknown_option_of_the_llm_is_refused(self) -> None:
        self.llm()
        with expect_error(ValueError, TypeError, case="an unknown option"):
            self.llm(temprature_of_no_model=0.5)

    @each_method
    async def test_what_is_given_is_not_changed(self, method: str) -> None:
        llm, question = self.llm(system_prompt="Be kind."), argument_for(method, self.question)
        options = self.call_options(max_tokens=4)
        if self.supports_stop:
            options |= self.call_options(max_tokens=4, stop=["\x00"])
        before = repr(question), repr(options), len(question)
        await call(getattr(llm, method), question, **options)
        assert (repr(question), repr(options), len(question)) == before

    @each_chat_method
    async def test_the_blocks_of_a_message_are_one_text(self, method: str) -> None:
        llm = self.llm()
        blocks = [TextBlock(text="Be brief."), TextBlock(text=self.question)]
        answers = await call(getattr(llm, method), [ChatMessage(role="user", blocks=blocks)])
        assert text_of(answers[-1]) == await answer_text(llm, method, f"Be brief.\n{self.question}")

    @each_chat_method
    async def test_an_image_is_refused_by_who_reads_none(self, method: str) -> None:
        self.offered(not self.supports_images, "no reading of images")
        blocks = [TextBlock(text=self.question), ImageBlock(image=b"none", image_mimetype="x/y")]
        chat = getattr(self.llm(), method)
        with expect_error(ValueError, TypeError, NotImplementedError, case="an image"):
            await call(chat, [ChatMessage(role="user", blocks=blocks)])

    async def _stop_string(self, llm: Any, method: str) -> tuple[str, str]:
        """The text of an answer, and a stop string from its middle."""
        whole = await answer_text(llm, method, self.question)
        middle = len(whole) // 2
        assert middle >= 5, f"too short an answer for the suite, override `question`: {whole!r}"
        return whole, whole[middle : middle + 4]

    def _assert_stopped_before(self, stop: str, parts: list[Any], whole: str) -> None:
        """Each part is a prefix of the text before the stop string, and the last is all of it.

        White space at the end is ignored, because some packages strip it.
        """
        expected = whole[: whole.index(stop)]
        for part in parts:
            assert expected.startswith(text_of(part)), f"{text_of(part)!r} goes beyond {expected!r}"
        assert text_of(parts[-1]).rstrip() == expected.rstrip()
