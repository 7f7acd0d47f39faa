"""What LangChain does around a model: nothing is lost, and nothing is added."""

from __future__ import annotations

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from support.applications import application

from langchain_marith import ChatMarith

running = application("langchain_running")
INPUTS = [{"question": question} for question in running.QUESTIONS]
LONG = "Tell me about comets. " * 20


def test_a_prompt_too_long_falls_back_to_a_model_that_reads_it() -> None:
    model = running.short_then_long()
    with pytest.raises(ContextOverflowError):
        model.runnable.invoke(LONG)
    answer = model.invoke(LONG)
    assert answer.text == model.fallbacks[0].invoke(LONG).text
    assert answer.usage_metadata["input_tokens"] > model.runnable.context_length
    short = "Why do cats purr?"
    assert model.invoke(short).text == model.runnable.invoke(short).text


def test_a_callback_adds_up_what_all_calls_used() -> None:
    chain = running.PROMPT | ChatMarith(**running.SPOKEN, seed=1)
    usage = UsageMetadataCallbackHandler()
    answers = chain.batch(INPUTS, {"callbacks": [usage]})
    used = [answer.usage_metadata for answer in answers]
    (heard,) = usage.usage_metadata.values()
    for part in ("input_tokens", "output_tokens", "total_tokens"):
        assert heard[part] == sum(each[part] for each in used)
