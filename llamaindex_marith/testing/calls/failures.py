"""Are errors raised, soon, and does the model live on after one?"""

from __future__ import annotations

from llama_index.core.llms import LLM

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.ways import ask, each_way, in_time, refusal, says


class Errors(LLMUnderTest):
    """What goes wrong is told to who asked, and to nobody else."""

    @each_way
    async def test_an_error_is_raised_and_nothing_hangs(self, way: str) -> None:
        llm, question = self.failing()
        await self._refused(llm, way, question, "generation that fails")

    @each_way
    async def test_a_prompt_beyond_the_context_is_refused(self, way: str) -> None:
        llm = self.llm()
        await self._refused(llm, way, self.too_long(llm), "a prompt longer than the context")

    @each_way
    async def test_an_error_harms_no_later_call(self, way: str) -> None:
        llm = self.llm()
        truth = await says(llm, way, self.question)
        failing, question = self.failing()
        await self._refused(failing, way, question, "generation that fails")
        assert await says(llm, way, self.question) == truth

    async def _refused(self, llm: LLM, way: str, question: str, what: str) -> None:
        with refusal(Exception, of=what):
            await in_time(lambda: ask(llm, way, question), self.patience)
