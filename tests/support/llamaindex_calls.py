"""Every method with which LlamaIndex asks a model, by its name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool

from llamaindex_marith import Marith

Make = Callable[..., Marith]

COMPLETIONS = ("complete", "stream_complete", "acomplete", "astream_complete")
CHATS = ("chat", "stream_chat", "achat", "astream_chat")
WITH_TOOLS = tuple(f"{chat}_with_tools" for chat in CHATS)
TEMPLATES = ("predict", "stream", "apredict", "astream")
WAYS = (*COMPLETIONS, *CHATS)


def clock(late: bool) -> str:
    """Tell the time."""
    return str(late)


async def ask(model: Marith, way: str, question: Any = "k l", /, **options: Any) -> list[Any]:
    """Return all responses that make up an answer to a text, or to messages in a chat."""
    method = getattr(model, way)
    if way in CHATS:
        messages = [ChatMessage(question)] if isinstance(question, str) else question
        answer = method(messages, **options)
    elif way in WITH_TOOLS:
        answer = method([FunctionTool.from_defaults(clock)], user_msg=question, **options)
    elif way in TEMPLATES:
        answer = method(PromptTemplate("{text}"), text=question, **options)
    else:
        answer = method(question, **options)
    answer = await answer if way.startswith("a") else answer
    if isinstance(answer, AsyncIterator):
        return [part async for part in answer]
    return list(answer) if isinstance(answer, Iterator) else [answer]


def text_of(answer: Any) -> str:
    """Return the text of a response."""
    return str(answer.message.content if hasattr(answer, "message") else answer.text)
