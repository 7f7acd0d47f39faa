"""A sound LLM with a way in: what it is asked and what it answers may be altered by who breaks it.

The sound methods are called as they are, so that nothing else than what is altered goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llamaindex_marith import Marith

# A fault, the checks that it breaks, each with its parameters, and what the suite asks of it.
Broken = tuple[type, str, dict[str, Any]]
BROKEN: list[Broken] = []


def breaks(*checks: str, **parameters: Any) -> Callable[[type], type]:
    """Note that a fault breaks these checks, for these parameters."""

    def noted(fault: type) -> type:
        BROKEN.extend((fault, f"test_{check}", parameters) for check in checks)
        return fault

    return noted


class Altered(Marith):
    """Passes each question through `asked`, and each answer through `answered`."""

    def asked(self, question: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """What is asked instead."""
        return question, options

    def answered(self, answer: Any, way: str) -> Any:
        """What is answered instead."""
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

    def _all_answered(self, answers: Any, way: str) -> Any:
        for answer in answers:
            yield self.answered(answer, way)

    async def _all_aanswered(self, answers: Any, way: str) -> Any:
        async for answer in answers:
            yield self.answered(answer, way)


def with_text(answer: Any, text: str) -> Any:
    """The same answer in other words."""
    if hasattr(answer, "message"):
        message = answer.message.model_copy(update={"blocks": []})
        message.content = text
        return answer.model_copy(update={"message": message})
    return answer.model_copy(update={"text": text})
