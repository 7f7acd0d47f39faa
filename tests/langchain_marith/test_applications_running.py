"""What LangChain does around a model: nothing is lost, and nothing is added."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.caches import InMemoryCache
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


def test_another_error_does_not_fall_back() -> None:
    with pytest.raises(ValueError, match="no option 'colour'"):
        running.short_then_long().invoke("Why do cats purr?", colour="red")


def test_a_batch_answers_each_question_as_if_alone() -> None:
    chain = running.chain()
    alone = [chain.invoke(question) for question in INPUTS]
    assert all(alone)
    assert chain.batch(INPUTS) == alone
    assert asyncio.run(chain.abatch(INPUTS)) == alone
    assert dict(chain.batch_as_completed(INPUTS)) == dict(enumerate(alone))


def test_one_question_that_fails_harms_no_other_of_its_batch() -> None:
    chain = running.PROMPT | running.ChatMarith(**running.SPOKEN, context_length=96, seed=1)
    inputs = [INPUTS[0], {"question": LONG}, INPUTS[1]]
    first, failed, last = chain.batch(inputs, return_exceptions=True)
    assert isinstance(failed, ContextOverflowError)
    assert [first.text, last.text] == [chain.invoke(INPUTS[i]).text for i in (0, 1)]


async def test_events_of_a_chain_carry_the_models_text_as_it_comes() -> None:
    chain = running.chain()
    pieces = await running.pieces_of(chain, running.QUESTIONS[0])
    assert len(pieces) > 5
    assert "".join(pieces) == chain.invoke(INPUTS[0])


async def test_events_of_a_chain_tell_the_model_and_its_usage_at_the_end() -> None:
    events = running.chain().astream_events(INPUTS[0], version="v2")
    ends = [event async for event in events if event["event"] == "on_chat_model_end"]
    (end,) = ends
    output = end["data"]["output"]
    assert end["metadata"]["ls_provider"] == "marith"
    assert output.response_metadata["finish_reason"] in ("stop", "length")
    assert output.usage_metadata["output_tokens"] > 0


def test_a_callback_adds_up_what_all_calls_used() -> None:
    chain = running.PROMPT | ChatMarith(**running.SPOKEN, seed=1)
    usage = UsageMetadataCallbackHandler()
    answers = chain.batch(INPUTS, {"callbacks": [usage]})
    used = [answer.usage_metadata for answer in answers]
    (heard,) = usage.usage_metadata.values()
    for part in ("input_tokens", "output_tokens", "total_tokens"):
        assert heard[part] == sum(each[part] for each in used)


def test_a_cache_answers_the_same_call_and_no_other() -> None:
    cache = InMemoryCache()

    def ask(question: str = "Why do cats purr?", **options: object) -> str:
        model = ChatMarith(**{**running.SPOKEN, "cache": cache, **options})
        return str(model.invoke(question).text)

    text = ask()  # without a seed: only a cache says the same twice
    assert {ask() for _ in range(3)} == {text}
    others = ({"formula": "M"}, {"temperature": 0.6}, {"seed": 3}, {"max_tokens": 23})
    for options in others:
        ask(**options)
    ask("Why do dogs bark?")
    ask(terms={"formal": "Write formally."})
    assert len(cache._cache) == len(others) + 3
    assert ask() == text


async def test_streams_and_calls_side_by_side_share_an_engine_and_say_their_own() -> None:
    chain = running.chain()
    alone = [chain.invoke(question) for question in INPUTS]

    async def streamed(question: dict[str, str]) -> str:
        return "".join([piece async for piece in chain.astream(question)])

    texts = await asyncio.gather(*map(streamed, INPUTS), *map(chain.ainvoke, INPUTS))
    assert texts == [*alone, *alone]
