"""`ChatMarith`: every way to ask gives the engine's own text, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from speaking_model import FORMULA, Make, by_engine

import marith


async def test_every_way_to_ask_gives_the_engines_text(make: Make, tiny_dir: str) -> None:
    truth = by_engine(tiny_dir, "k l").text
    model = make()
    assert len(truth) > 3
    assert model.invoke("k l").text == truth
    assert "".join(chunk.text for chunk in model.stream("k l")) == truth
    assert (await model.ainvoke("k l")).text == truth
    assert "".join([chunk.text async for chunk in model.astream("k l")]) == truth
    assert [m.text for m in model.batch(["k l", "k l"])] == [truth] * 2
    assert [m.text for m in await model.abatch(["k l", "k l"])] == [truth] * 2
    assert model.invoke("k l", stream=True).text == truth
    assert make(streaming=True).invoke("k l").text == truth


async def test_sixteen_at_once_speak_as_one_by_one(make: Make, tiny_dir: str) -> None:
    model = make()
    prompts = [" ".join("abcdefghijklmnopq"[i : i + 3]) for i in range(16)]
    together = await asyncio.gather(*(model.ainvoke(prompt) for prompt in prompts))
    assert [m.text for m in together] == [by_engine(tiny_dir, p).text for p in prompts]
    assert len({m.text for m in together}) > 4


def test_a_chain_needs_to_know_no_formula(make: Make, tiny_dir: str) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "s t"), ("human", "{question}")])
    messages = [{"role": "system", "content": "s t"}, {"role": "user", "content": "k l"}]
    chain = prompt | make() | StrOutputParser()
    assert chain.invoke({"question": "k l"}) == by_engine(tiny_dir, messages).text


def test_a_conversation_reaches_the_template_whole(make: Make, tiny_dir: str) -> None:
    call = {"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
    told = [
        SystemMessage("s"),
        HumanMessage([{"type": "text", "text": "k l"}]),
        AIMessage("m", tool_calls=[call]),
        ToolMessage("n o", tool_call_id="c1"),
        HumanMessage("p"),
    ]
    written = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "k l"},
        {"role": "assistant", "content": "m"},
        {"role": "tool", "content": "n o"},
        {"role": "user", "content": "p"},
    ]
    truth = by_engine(tiny_dir, written)
    answer = make().invoke(told)
    assert answer.text == truth.text
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_tokens"] == truth.usage.prompt_tokens


def test_a_picture_is_refused_rather_than_lost(make: Make) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    with pytest.raises(marith.RequestError, match="only text can be read"):
        make().invoke([HumanMessage([{"type": "text", "text": "k"}, picture])])


def test_strings_that_stop_are_never_told(make: Make) -> None:
    whole = make().invoke("k l").text
    by_model, by_call = whole[4:6], whole[9:11]
    model = make(stop=[by_model])
    answer = model.invoke("k l", stop=[by_call])
    cut = min(whole.index(by_model), whole.index(by_call))
    assert answer.text == whole[:cut]
    assert answer.response_metadata["finish_reason"] == "stop"
    assert "".join(c.text for c in model.stream("k l", stop=[by_call])) == whole[:cut]
    only_call = make(stop=["§"]).invoke("k l", stop=[by_call])
    assert only_call.text == whole[: whole.index(by_call)]


def test_what_an_answer_says_of_itself_is_exact(make: Make, tiny_dir: str) -> None:
    truth = by_engine(tiny_dir, "k l")
    answer = make().invoke("k l")
    usage = answer.usage_metadata
    assert usage is not None
    assert usage["input_tokens"] == truth.usage.prompt_tokens
    assert usage["output_tokens"] == len(truth.tokens)
    assert usage["total_tokens"] == truth.usage.total_tokens
    assert 0 <= usage["input_token_details"]["cache_read"] <= usage["input_tokens"]
    told = answer.response_metadata
    assert (told["model_name"], told["model_provider"]) == (tiny_dir, "marith")
    assert told["finish_reason"] == truth.finish_reason
    assert told["composition"]["formula"] == FORMULA
    assert told["composition"]["calls"] >= 2 * len(truth.tokens)


def test_what_is_said_once_is_on_the_last_chunk(make: Make) -> None:
    chunks = list(make().stream("k l"))
    assert len(chunks) > 3
    assert [c.usage_metadata is not None for c in chunks].count(True) == 1
    assert all(not c.response_metadata.get("model_name") for c in chunks[:-1])
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert isinstance(whole, AIMessageChunk)
    answer = make().invoke("k l")
    assert whole.response_metadata == answer.response_metadata | {
        "composition": whole.response_metadata["composition"]
    }
    assert (whole.usage_metadata or {})["output_tokens"] == (answer.usage_metadata or {})[
        "output_tokens"
    ]


class Listener(BaseCallbackHandler):
    """Writes down every new token."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.heard.append(token)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
async def test_each_token_is_announced_once(make: Make) -> None:
    model = make()
    truth = model.invoke("k l").text
    for ask in ("stream", "astream", "v3"):
        listener = Listener()
        config = {"callbacks": [listener]}
        if ask == "stream":
            list(model.stream("k l", config=config))
        elif ask == "astream":
            [chunk async for chunk in model.astream("k l", config=config)]
        else:
            list(model.stream_events("k l", config=config, version="v3"))
        assert "".join(listener.heard) == truth, ask


def test_a_prompt_too_long_is_langchains_own_error(make: Make) -> None:
    with pytest.raises(ContextOverflowError) as caught:
        make().invoke("k " * 1200)
    assert isinstance(caught.value.__cause__, marith.ContextOverflow)


async def test_time_runs_out_as_an_error(make: Make) -> None:
    model = make(timeout=1e-4, max_tokens=200)
    with pytest.raises(TimeoutError, match=r"within 0\.0001 seconds"):
        model.invoke("k l")
    with pytest.raises(TimeoutError):
        await model.ainvoke("k l")
    with pytest.raises(TimeoutError):
        list(model.stream("k l"))
    assert make(timeout=60).invoke("k l").text == make().invoke("k l").text


def test_tokens_are_counted_in_the_models_own_vocabulary(make: Make) -> None:
    assert make().get_num_tokens("a b c d") == 4
    assert make().get_num_tokens("") == 0


async def test_the_event_loop_turns_while_a_model_speaks(make: Make) -> None:
    model = make(max_tokens=200, temperature=0)
    model.invoke("k l")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticker = asyncio.create_task(tick())
    answer = await model.ainvoke("k l")
    ticker.cancel()
    assert (answer.usage_metadata or {})["output_tokens"] >= 60
    assert ticks >= 10  # a call that blocks leaves one


def test_making_a_model_loads_nothing() -> None:
    script = (
        "import sys; from langchain_marith import ChatMarith, MarithLLM;"
        "ChatMarith(formula='2*a - M', terms={'a': 'A chef.'}); MarithLLM(model='/nowhere');"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
