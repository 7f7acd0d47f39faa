"""Does a call's option win, is an unknown one refused, and is nothing changed that was given?"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.ways import (
    FIRST,
    ask,
    call,
    each_chat,
    each_way,
    in_words,
    refusal,
    says,
    text_of,
)


class Overrides(LLMUnderTest):
    """What is said of a call is done for this call."""

    @each_way
    async def test_a_call_may_say_where_to_stop(self, way: str) -> None:
        self.offered(self.supports_stop, "stop")
        llm = self.llm()
        whole, stop = await self._stopping(llm, way)
        parts = await ask(llm, way, self.question, **self.call_options(stop=[stop]))
        self._stopped(parts, whole, stop)

    @each_way
    async def test_an_llm_may_be_made_to_stop(self, way: str) -> None:
        self.offered(self.supports_stop, "stop")
        whole, stop = await self._stopping(self.llm(), way)
        parts = await ask(self.llm(stop=["\x00no such text", stop]), way, self.question)
        self._stopped(parts, whole, stop)

    @each_way
    async def test_a_call_may_say_how_long(self, way: str) -> None:
        llm = self.llm()
        whole = await says(llm, way, self.question)
        short = await says(llm, way, self.question, **self.call_options(max_tokens=4))
        assert whole.startswith(short), f"{short!r} does not begin {whole!r}"
        assert len(short) < len(whole), "as long as without max_tokens"

    @each_way
    async def test_a_call_may_say_how_warm(self, way: str) -> None:
        truth = await says(self.llm(), way, self.question)
        warm = self.llm(temperature=3.0)
        cold = self.call_options(temperature=0.0)
        told = [await says(warm, way, self.question, **cold) for _ in range(2)]
        assert told == [truth] * 2, "as warm as without it"

    @each_way
    async def test_a_call_may_say_its_seed(self, way: str) -> None:
        self.offered(self.supports_seed, "seed")
        llm = self.llm(temperature=3.0, seed=1, max_tokens=6)
        seeds = [self.call_options(seed=seed) for seed in (2, 2, 3, 4)]
        texts = [await says(llm, way, self.question, **seed) for seed in seeds]
        assert texts[0] == texts[1]
        assert len(set(texts)) > 1, "every seed says the same"

    @each_way
    async def test_an_llm_with_a_seed_repeats_itself(self, way: str) -> None:
        self.offered(self.supports_seed, "seed")
        llm = self.llm(temperature=3.0, seed=1, max_tokens=6)
        whole = await says(llm, FIRST[way], self.question)
        assert await says(llm, way, self.question) == whole

    @each_way
    async def test_a_calls_options_are_forgotten_after_it(self, way: str) -> None:
        llm = self.llm()
        before = await says(llm, way, self.question)
        words: dict[str, Any] = {"max_tokens": 3, "temperature": 2.0}
        words |= {"stop": ["e"]} if self.supports_stop else {}
        await ask(llm, way, self.question, **self.call_options(**words))
        assert await says(llm, way, self.question) == before

    @each_way
    async def test_an_unknown_option_of_a_call_is_refused(self, way: str) -> None:
        llm = self.llm()
        with refusal(ValueError, TypeError, of="an option that nobody knows"):
            await ask(llm, way, self.question, temprature_of_no_model=0.5)

    def test_an_unknown_option_of_the_llm_is_refused(self) -> None:
        self.llm()
        with refusal(ValueError, TypeError, of="an option that nobody knows"):
            self.llm(temprature_of_no_model=0.5)

    @each_way
    async def test_what_is_given_is_not_changed(self, way: str) -> None:
        llm, question = self.llm(system_prompt="Be kind."), in_words(way, self.question)
        options = self.call_options(max_tokens=4)
        if self.supports_stop:
            options |= self.call_options(max_tokens=4, stop=["\x00"])
        before = repr(question), repr(options), len(question)
        await call(getattr(llm, way), question, **options)
        assert (repr(question), repr(options), len(question)) == before

    @each_chat
    async def test_the_blocks_of_a_message_are_one_text(self, way: str) -> None:
        llm = self.llm()
        blocks = [TextBlock(text="Be brief."), TextBlock(text=self.question)]
        many = await call(getattr(llm, way), [ChatMessage(role="user", blocks=blocks)])
        assert text_of(many[-1]) == await says(llm, way, f"Be brief.\n{self.question}")

    @each_chat
    async def test_an_image_is_refused_by_who_reads_none(self, way: str) -> None:
        self.offered(not self.supports_images, "no reading of images")
        blocks = [TextBlock(text=self.question), ImageBlock(image=b"none", image_mimetype="x/y")]
        method = getattr(self.llm(), way)
        with refusal(ValueError, TypeError, NotImplementedError, of="an image"):
            await call(method, [ChatMessage(role="user", blocks=blocks)])

    async def _stopping(self, llm: Any, way: str) -> tuple[str, str]:
        """An answer, and some characters from its middle to stop it at."""
        whole = await says(llm, way, self.question)
        middle = len(whole) // 2
        assert middle >= 5, f"too short an answer for the suite, override `question`: {whole!r}"
        return whole, whole[middle : middle + 4]

    def _stopped(self, parts: list[Any], whole: str, stop: str) -> None:
        """Each part is a beginning of the text before the stop string, and the last is all of it.

        Some cut white space at the end of a text.
        """
        truth = whole[: whole.index(stop)]
        for part in parts:
            assert truth.startswith(text_of(part)), f"{text_of(part)!r} goes beyond {truth!r}"
        assert text_of(parts[-1]).rstrip() == truth.rstrip()
