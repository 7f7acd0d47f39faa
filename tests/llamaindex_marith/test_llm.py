"""`Marith`: every way to ask gives the engine's own text; the rest is in the conformance suite."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from llama_index.core import Document, SummaryIndex
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import LLM, ChatMessage, CustomLLM, MessageRole
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.prompts import PromptTemplate
from pydantic import ValidationError

import marith
from llamaindex_marith import Marith

FORMULA = "2*a - 0.5*b"
TERMS = {"a": "a b c", "b": "x y z"}
SEED = 5
USER = [ChatMessage(role=MessageRole.USER, content="k l")]

Make = Callable[..., Marith]


def by_engine(model: str, prompt: Any, **options: Any) -> marith.Completion:
    asked = {"formula": FORMULA, "terms": TERMS, **options}
    sampling = marith.Sampling(temperature=0.9, seed=SEED)
    return marith.Engine.shared(model).generate(
        prompt, **asked, sampling=sampling, stop=marith.Stop(24)
    )


async def every_way(model: Marith) -> dict[str, Any]:
    """The last answer of each of the eight ways to ask, and the whole streams."""
    answers: dict[str, Any] = {
        "complete": [model.complete("k l")],
        "stream_complete": list(model.stream_complete("k l")),
        "acomplete": [await model.acomplete("k l")],
        "astream_complete": [a async for a in await model.astream_complete("k l")],
        "chat": [model.chat(USER)],
        "stream_chat": list(model.stream_chat(USER)),
        "achat": [await model.achat(USER)],
        "astream_chat": [a async for a in await model.astream_chat(USER)],
    }
    return answers


def text_of(answer: Any) -> str:
    return str(answer.message.content if hasattr(answer, "message") else answer.text)


async def test_every_way_to_ask_gives_the_engines_text(make: Make, tiny_dir: str) -> None:
    truth = by_engine(tiny_dir, "k l")
    assert len(truth.text) > 12
    for way, answers in (await every_way(make())).items():
        last = answers[-1]
        assert text_of(last) == truth.text, way
        assert last.raw["finish_reason"] == truth.finish_reason
        assert last.raw["usage"]["prompt_tokens"] == truth.usage.prompt_tokens
        assert last.raw["usage"]["completion_tokens"] == len(truth.tokens)
        assert last.raw["model"] == tiny_dir
        assert json.loads(json.dumps(last.raw)) == last.raw
        assert last.additional_kwargs["total_tokens"] == truth.usage.total_tokens
        if "stream" in way:
            assert len(answers) > 3, way
            assert "".join(a.delta for a in answers) == truth.text, way
            assert all(
                text_of(later) == text_of(sooner) + later.delta
                for sooner, later in pairwise(answers)
            )
            assert all(a.raw is None for a in answers[:-1])


async def ask(model: Marith, way: str, question: Any, **options: Any) -> list[Any]:
    answer = getattr(model, way)(question, **options)
    if way.startswith("a"):
        answer = await answer
    if way.startswith("a") and "stream" in way:
        return [part async for part in answer]
    return list(answer) if "stream" in way else [answer]


WAYS = ("complete", "stream_complete", "acomplete", "astream_complete")
CHATS = ("chat", "stream_chat", "achat", "astream_chat")
each_way = pytest.mark.parametrize("way", [*WAYS, *CHATS])


@each_way
async def test_a_calls_options_win_and_unknown_ones_are_refused(
    make: Make, tiny_dir: str, way: str
) -> None:
    question: Any = "k l" if way in WAYS else list(USER)
    whole = by_engine(tiny_dir, "k l").text
    model = make(stop=[whole[15:17]])
    answers = await ask(model, way, question, stop=[whole[6:8]])
    assert text_of(answers[-1]) == whole[: min(whole.index(whole[6:8]), whole.index(whole[15:17]))]
    other = await ask(make(), way, question, formula="b", max_tokens=5)
    assert other[-1].raw["usage"]["completion_tokens"] <= 5
    assert by_engine(tiny_dir, "k l", formula="b").text.startswith(text_of(other[-1]))
    with pytest.raises(ValueError, match="Marith takes no option 'temprature'"):
        await ask(model, way, question, temprature=0)
    assert question in ("k l", USER)


@pytest.mark.parametrize("way", WAYS)
async def test_system_prompt_and_wrapper_reach_every_completion(
    make: Make, tiny_dir: str, way: str
) -> None:
    model = make(system_prompt="s t", completion_to_prompt=lambda prompt: f"{prompt} w")
    truth = by_engine(
        tiny_dir, [{"role": "system", "content": "s t"}, {"role": "user", "content": "k l w"}]
    )
    assert text_of((await ask(model, way, "k l"))[-1]) == truth.text
    formatted = await ask(model, way, "k l", formatted=True)
    assert text_of(formatted[-1]) == by_engine(tiny_dir, "k l").text


def test_a_template_brings_the_system_prompt_once(make: Make, tiny_dir: str) -> None:
    messages = [{"role": "system", "content": "s t"}, {"role": "user", "content": "k l"}]
    text = make(system_prompt="s t").predict(PromptTemplate("k {x}"), x="l")
    assert text == by_engine(tiny_dir, messages).text


def test_a_query_is_answered_from_documents(make: Make) -> None:
    index = SummaryIndex.from_documents([Document(text="a b c d"), Document(text="e f g")])
    model = make(max_tokens=12)
    plain = index.as_query_engine(llm=model).query("k l")
    streamed = index.as_query_engine(llm=model, streaming=True).query("k l")
    assert str(plain)
    assert isinstance(streamed, StreamingResponse)
    assert "".join(streamed.response_gen) == str(plain)
    assert str(index.as_query_engine(llm=make(max_tokens=12, formula="b")).query("k l")) != str(
        plain
    )


async def test_a_chat_engine_remembers(make: Make, tiny_dir: str) -> None:
    memory = ChatMemoryBuffer.from_defaults(token_limit=500, tokenizer_fn=str.split)
    engine = SimpleChatEngine.from_defaults(llm=make(), memory=memory)
    first = str(engine.chat("k l"))
    second = str(await engine.achat("m n"))
    assert first == by_engine(tiny_dir, "k l").text
    turns = [("user", "k l"), ("assistant", first), ("user", "m n")]
    messages = [{"role": role, "content": content} for role, content in turns]
    assert second == by_engine(tiny_dir, messages).text


@each_way
async def test_tokens_are_counted_exactly(make: Make, tiny_dir: str, way: str) -> None:
    counter = TokenCountingHandler(tokenizer=lambda text: [])
    model = make(callback_manager=CallbackManager([counter]))
    await ask(model, way, "k l" if way in WAYS else USER)
    usage = by_engine(tiny_dir, "k l").usage
    assert counter.prompt_llm_token_count == usage.prompt_tokens
    assert counter.completion_llm_token_count == usage.completion_tokens


async def test_sixteen_at_once_answer_as_one_by_one(make: Make, tiny_dir: str) -> None:
    model = make()
    prompts = [" ".join("abcdefghijklmnopq"[i : i + 3]) for i in range(16)]
    together = await asyncio.gather(*(model.acomplete(prompt) for prompt in prompts))
    assert [a.text for a in together] == [by_engine(tiny_dir, p).text for p in prompts]


def test_a_model_is_a_plain_value(make: Make) -> None:
    model = make(formula=2 * marith.Prompted("a b c") - 0.5 * marith.Prompted("x y z"))
    truth = make().complete("k l").text
    for twin in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        Marith.from_dict(json.loads(json.dumps(model.to_dict()))),
    ):
        assert twin.to_dict() == model.to_dict()
        assert twin.complete("k l").text == truth


def test_it_is_what_llama_index_expects(make: Make) -> None:
    model = make(max_tokens=24)
    assert isinstance(model, CustomLLM)
    assert isinstance(model, LLM)
    assert model.metadata.context_window == 1024
    assert model.metadata.num_output == 24
    assert model.metadata.is_chat_model
    assert make(context_length=64).metadata.context_window == 64


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"formula": "a - nobody"}, "unknown term 'nobody'"),
        ({"formula": "a - 2*b"}, "more than zero"),
        ({"temperature": -1}, "temperature"),
        ({"temprature": 0}, "temprature"),
    ],
)
def test_what_means_nothing_is_refused_before_a_model_loads(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        Marith(**{"model": "/nowhere", "formula": FORMULA, "terms": TERMS, **options})
