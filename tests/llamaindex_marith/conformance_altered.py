"""A correct LLM whose questions and answers a subclass may alter, to break one thing.

Each method calls the one of `Marith`, so that nothing fails but what was altered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llamaindex_marith import Marith

# A faulty class, a check that it must fail, and the parameters of the failing case.
Broken = tuple[type, str, dict[str, Any]]
BROKEN: list[Broken] = []


def breaks(*checks: str, **parameters: Any) -> Callable[[type], type]:
    """Register a faulty class: it must fail these checks with these parameters."""

    def register(fault: type) -> type:
        BROKEN.extend((fault, f"test_{check}", parameters) for check in checks)
        return fault

    return register


class Altered(Marith):
    """Passes each question through `asked`, and each answer through `answered`."""

    def asked(self, question: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The question and the options that the model receives."""
        return question, options

    def answered(self, answer: Any, method: str) -> Any:
        """The answer that the caller receives."""
        return answer

    def chat(self, messages: Any, **options: Any) -> Any:
        asked, options = self.asked(messages, options)
        return self.answered(super().chat(asked, **options), "chat")

    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        asked, options = self.asked(prompt, options)
        return self.answered(super().complete(asked, formatted, **options), "complete")

    def stream_chat(self, messages: Any, **options: Any) -> Any:
        asked, options = self.asked(messages, options)
        return self._all_answered(super().stream_chat(asked, **options), "stream_chat")

    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        asked, options = self.asked(prompt, options)
        answers = super().stream_complete(asked, formatted, **options)
        return self._all_answered(answers, "stream_complete")

    async def achat(self, messages: Any, **options: Any) -> Any:
        asked, options = self.asked(messages, options)
        return self.answered(await super().achat(asked, **options), "achat")

    async def acomplete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        asked, options = self.asked(prompt, options)
        return self.answered(await super().acomplete(asked, formatted, **options), "acomplete")

    async def astream_chat(self, messages: Any, **options: Any) -> Any:
        asked, options = self.asked(messages, options)
        return self._all_aanswered(await super().astream_chat(asked, **options), "astream_chat")

    async def astream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        asked, options = self.asked(prompt, options)
        answers = await super().astream_complete(asked, formatted, **options)
        return self._all_aanswered(answers, "astream_complete")

    def _all_answered(self, answers: Any, method: str) -> Any:
        for answer in answers:
            yield self.answered(answer, method)

    async def _all_aanswered(self, answers: Any, method: str) -> Any:
        async for answer in answers:
            yield self.answered(answer, method)


def with_text(answer: Any, text: str) -> Any:
    """The same answer with another text."""
    if hasattr(answer, "message"):
        message = answer.message.model_copy(update={"blocks": []})
        message.content = text
        return answer.model_copy(update={"message": message})
    return answer.model_copy(update={"text": text})
