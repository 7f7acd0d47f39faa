"""Test LlamaIndex's `OpenAILike` over `marith serve`, by pytest.

`MARITH_URL=… pytest openai_like_suite.py`
"""

import os
from typing import Any, Literal

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

QUESTION = [ChatMessage("Name a river and say something about it.")]


class Voyage(BaseModel):
    """A voyage on a river."""

    river: Literal["Ebro", "Rhone", "Elbe"]
    upstream: bool


def depth(river: Literal["Ebro", "Rhone", "Elbe"]) -> str:
    """How deep a river is."""
    return f"{river}: three metres"


def client(**options: Any) -> OpenAILike:
    """Return a chat model that calls tools, made as docs/how-to/serve.md says."""
    defaults: dict[str, Any] = {
        "model": "pocket",
        "is_chat_model": True,
        "is_function_calling_model": True,
        "max_tokens": 60,
    }
    return OpenAILike(
        api_base=f"{os.environ['MARITH_URL']}/v1",
        api_key="sk-client-key",
        context_window=1024,
        temperature=0.0,
        **{**defaults, **options},
    )


async def test_a_chat_is_answered_whole_and_in_a_stream() -> None:
    llm = client()
    answer = llm.chat(QUESTION)
    assert answer.message.content
    assert answer.raw.usage.completion_tokens > 0
    assert [*llm.stream_chat(QUESTION)][-1].message.content == answer.message.content
    assert (await llm.achat(QUESTION)).message.content == answer.message.content


def test_a_model_that_reasons_answers_beside_its_thoughts() -> None:
    answer = client(model="thinking").chat(QUESTION)
    assert "Good day." in str(answer.message.content)
    assert "A greeting." not in str(answer.message.content)


def test_a_tool_is_called_and_run() -> None:
    response = client().predict_and_call(
        [FunctionTool.from_defaults(depth)], "How deep is the Ebro?", tool_required=True
    )
    assert response.response.endswith("three metres")


@pytest.mark.parametrize("stream", [False, True])
def test_an_object_is_made(stream: bool) -> None:
    llm, prompt = client(max_tokens=200), PromptTemplate("Plan a voyage on the Ebro, please.")
    if stream:
        *_, voyage = llm.stream_structured_predict(Voyage, prompt)
    else:
        voyage = llm.structured_predict(Voyage, prompt)
    assert isinstance(voyage, Voyage)


def test_texts_are_continued() -> None:
    """Without its flags, `OpenAILike` sends texts to `/v1/completions`."""
    llm = client(is_chat_model=False, is_function_calling_model=False, max_tokens=12)
    text = llm.complete("The sea is", seed=1).text
    assert text
    assert [*llm.stream_complete("The sea is", seed=1)][-1].text == text
