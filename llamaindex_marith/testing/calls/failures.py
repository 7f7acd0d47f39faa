"""Does a failing call raise its error soon, and do later calls still work?"""

from __future__ import annotations

from llama_index.core.llms import LLM

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    answer_text,
    ask,
    each_method,
    expect_error,
    in_own_loop,
)


class Errors(LLMUnderTest):
    """An error reaches the caller whose call failed, and no other caller."""

    @each_method
    async def test_an_error_is_raised_and_nothing_hangs(self, method: str) -> None:
        llm, question = self.failing()
        await self._expect_error(llm, method, question, "generation that fails")

    @each_method
    async def test_a_prompt_beyond_the_context_is_refused(self, method: str) -> None:
        llm = self.llm()
        await self._expect_error(llm, method, self.too_long(llm), "a prompt beyond the context")

    @each_method
    async def test_an_error_harms_no_later_call(self, method: str) -> None:
        llm = self.llm()
        expected = await answer_text(llm, method, self.question)
        failing, question = self.failing()
        await self._expect_error(failing, method, question, "generation that fails")
        assert await answer_text(llm, method, self.question) == expected

    async def _expect_error(self, llm: LLM, method: str, question: str, case: str) -> None:
        with expect_error(Exception, case=case):
            await in_own_loop(lambda: ask(llm, method, question), self.patience)
