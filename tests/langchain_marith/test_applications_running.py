"""What LangChain adds up of all calls is what they used."""

from __future__ import annotations

from langchain_core.callbacks import UsageMetadataCallbackHandler
from support.applications import application

from langchain_marith import ChatMarith

running = application("langchain_running")
INPUTS = [{"question": question} for question in running.QUESTIONS]


def test_a_callback_adds_up_what_all_calls_used() -> None:
    chain = running.PROMPT | ChatMarith(**running.SPOKEN, seed=1)
    usage = UsageMetadataCallbackHandler()
    answers = chain.batch(INPUTS, {"callbacks": [usage]})
    used = [answer.usage_metadata for answer in answers]
    (heard,) = usage.usage_metadata.values()
    for part in ("input_tokens", "output_tokens", "total_tokens"):
        assert heard[part] == sum(each[part] for each in used)
