"""`n` answers to each prompt: their seeds, what they share, and which methods return them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.exceptions import LangChainException
from langchain_core.messages import HumanMessage
from langchain_core.outputs import LLMResult
from support.langchain_models import Make, Writer, engine_answer

import marith

ASKED = [[HumanMessage("k l")], [HumanMessage("m n o")]]


@pytest.fixture
def truths(tiny_dir: str) -> list[list[str]]:
    """Three answers to each prompt, by seeds one after the other."""
    return [
        [
            engine_answer(tiny_dir, prompt, sampling=marith.Sampling(0.9, seed=4 + i)).text
            for i in range(3)
        ]
        for prompt in ("k l", "m n o")
    ]


def texts(result: LLMResult) -> list[list[str]]:
    return [[generation.text for generation in each] for each in result.generations]


async def test_generate_returns_n_answers_to_each_prompt(
    make: Make, writer: Writer, truths: list[list[str]]
) -> None:
    assert len({*truths[0]}) == 3
    assert texts(make(n=3).generate(ASKED)) == truths
    assert texts(make().generate(ASKED, n=3)) == truths
    assert texts(await make(n=3).agenerate(ASKED)) == truths
    assert texts(await make(n=2).agenerate(ASKED, n=None)) == [each[:2] for each in truths]
    prompts = ["k l", "m n o"]
    assert texts(writer(n=3).generate(prompts)) == truths
    assert texts(writer(n=3).generate(prompts, n=1)) == [each[:1] for each in truths]
    assert texts(await writer().agenerate(prompts, n=3)) == truths
    assert writer(n=3).generate([]).generations == []


def test_each_answer_is_a_whole_message(make: Make) -> None:
    (answers,) = make().generate([ASKED[0]], n=2, logprobs=True).generations
    messages = [answer.message for answer in answers]  # type: ignore[union-attr]
    assert len({message.id for message in messages}) == 2
    for message in messages:
        usage = message.usage_metadata
        assert usage["output_tokens"] == len(message.response_metadata["logprobs"]["content"])


def refused(method: str) -> Any:
    says = f"{method} returns one answer for each prompt, not n=3; generate returns all of them"
    return pytest.raises(LangChainException, match=says)


@pytest.mark.parametrize("by_call", [True, False])
async def test_methods_that_return_one_answer_refuse_n_above_1(
    make: Make, writer: Writer, by_call: bool
) -> None:
    own, call = ({}, {"n": 3}) if by_call else ({"n": 3}, {})
    for model in (make(**own), writer(**own)):
        with refused("invoke"):
            model.invoke("k l", **call)
        with refused("ainvoke"):
            await model.ainvoke("k l", **call)
        with refused("batch"):
            model.batch(["k l"], **call)
        with refused("abatch"):
            await model.abatch(["k l"], **call)
        with refused("stream"):
            list(model.stream("k l", **call))
        with refused("astream"):
            [chunk async for chunk in model.astream("k l", **call)]
    assert make(n=3).invoke("k l", n=1).text == make().invoke("k l").text


def test_cached_answers_depend_on_n(make: Make, writer: Writer, truths: list[list[str]]) -> None:
    chat, text = make(cache=InMemoryCache()), writer(cache=InMemoryCache())
    for n in (1, 3, 2, 3):
        assert texts(chat.generate([ASKED[0]], n=n)) == [truths[0][:n]]
        assert texts(text.generate(["k l"], n=n)) == [truths[0][:n]]
    assert chat._get_llm_string() != make(n=2)._get_llm_string()


@pytest.mark.parametrize("n", [0, True, "2"])
def test_n_is_a_whole_number(make: Make, n: Any) -> None:
    with pytest.raises(marith.RequestError, match="n must be a whole number of at least 1, not"):
        make(n=n)
    with pytest.raises(marith.RequestError, match="n must be a whole number of at least 1, not"):
        make().generate([ASKED[0]], n=n)
