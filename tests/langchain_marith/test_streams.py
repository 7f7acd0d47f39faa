"""Streams of every version add up to the whole answer, and each part comes once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessageChunk
from support.langchain_models import MAP, Make, clock, sum_of

import marith
from langchain_marith.ai_messages import ChunkWriter

ASKED = "clock and map"
BETA = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
each_version = pytest.mark.parametrize("version", ["v0", "v1"])

TOKENS = st.builds(
    marith.TokenLogprob,
    token=st.integers(0, 9),
    text=st.text(max_size=3),
    data=st.binary(max_size=3),
    logprob=st.floats(-20, 0) | st.just(float("-inf")),
)
CHUNKS = st.builds(
    marith.Chunk,
    text=st.text(max_size=3),
    reasoning=st.text(max_size=3),
    calls=st.lists(
        st.builds(
            marith.CallChunk,
            st.integers(0, 2),
            st.none(),
            st.none(),
            st.text(min_size=1, max_size=3),
        ),
        max_size=2,
    ).map(tuple),
    logprobs=st.lists(TOKENS, max_size=2).map(tuple),
)


@given(st.lists(CHUNKS, min_size=1, max_size=5))
def test_chunks_of_one_kind_lose_nothing(chunks: list[marith.Chunk]) -> None:
    writer = ChunkWriter(marith.Options(), None, collects=False)
    messages = [chunk.message for each in chunks for chunk in writer.chunks(each, None)]
    kinds = [(m.content, m.additional_kwargs, m.tool_call_chunks) for m in messages]
    assert all(sum(map(bool, kind)) <= 1 for kind in kinds)
    whole = sum_of([AIMessageChunk(""), *messages])
    assert whole.content == "".join(chunk.text for chunk in chunks)
    thought = "".join(chunk.reasoning for chunk in chunks)
    assert whole.additional_kwargs.get("reasoning_content", "") == thought
    for index in range(3):
        own = [c.arguments for chunk in chunks for c in chunk.calls if c.index == index]
        pieces = [p["args"] for p in whole.tool_call_chunks if p["index"] == index]
        assert pieces == (["".join(own)] if own else [])
    tokens = [token for chunk in chunks for token in chunk.logprobs]
    listed = whole.response_metadata.get("logprobs", {"content": []})["content"]
    assert [bytes(each["bytes"]) for each in listed] == [token.data for token in tokens]
    assert all(each["logprob"] >= -9999 for each in listed)


def _like(one: Any, other: Any) -> bool:
    """Alike but for ids, and for how long it took."""
    same = one.text == other.text
    calls = [[(c["name"], c["args"]) for c in message.tool_calls] for message in (one, other)]
    return bool(same and calls[0] == calls[1] and calls[0])


@each_version
async def test_a_stream_adds_up_to_the_whole_answer(scripted: Make, version: str) -> None:
    model = scripted(output_version=version).bind_tools([clock, MAP], logprobs=True)
    whole = model.invoke(ASKED)
    by_stream = sum_of(model.stream(ASKED))
    by_astream = sum_of([chunk async for chunk in model.astream(ASKED)])
    for streamed in (by_stream, by_astream):
        assert _like(streamed, whole)
        assert isinstance(streamed.content, str if version == "v0" else list)
        kinds = [block["type"] for block in streamed.content_blocks]
        assert kinds == ["text", "tool_call", "tool_call"]
        assert kinds == [block["type"] for block in whole.content_blocks]
        assert streamed.usage_metadata is not None
        assert whole.usage_metadata is not None
        spelt = [
            [t["token"] for t in m.response_metadata["logprobs"]["content"]]
            for m in (streamed, whole)
        ]
        assert spelt[0] == spelt[1]
        for count in ("input_tokens", "output_tokens", "total_tokens"):
            assert streamed.usage_metadata[count] == whole.usage_metadata[count]  # type: ignore[literal-required]
        metadata = {k: v for k, v in streamed.response_metadata.items() if k != "composition"}
        assert metadata == {k: v for k, v in whole.response_metadata.items() if k != "composition"}


@BETA
@each_version
async def test_events_add_up_to_the_whole_answer(scripted: Make, version: str) -> None:
    model = scripted(output_version=version).bind_tools([clock, MAP], logprobs=True)
    whole = model.invoke(ASKED)
    stream = model.stream_events(ASKED, version="v3")
    events = [*stream]
    assert (events[0]["event"], events[-1]["event"]) == ("message-start", "message-finish")
    for output in (stream.output, await (await model.astream_events(ASKED, version="v3")).output):
        assert _like(output, whole)
        kinds = [block["type"] for block in output.content_blocks]
        assert kinds == ["text", "tool_call", "tool_call"]
        assert output.response_metadata["logprobs"] == whole.response_metadata["logprobs"]
        assert output.response_metadata["finish_reason"] == "tool_calls"
        assert output.usage_metadata["input_tokens"] > 0


@each_version
async def test_reasoning_is_kept_apart(scripted: Make, thinking_dir: str, version: str) -> None:
    model = scripted(model=thinking_dir, output_version=version)
    for answer in (model.invoke("Hello!"), sum_of(model.stream("Hello!"))):
        assert answer.text == "Good day."
        assert answer.additional_kwargs == {"reasoning_content": "A greeting."}
        blocks = [(block["type"], block.get(block["type"])) for block in answer.content_blocks]
        assert blocks == [("reasoning", "A greeting."), ("text", "Good day.")]
        details = (answer.usage_metadata or {})["output_token_details"]
        assert 0 < details["reasoning"] < (answer.usage_metadata or {})["output_tokens"]
    calling = model.bind_tools([clock, MAP])
    for answer in (calling.invoke(ASKED), sum_of(calling.stream(ASKED))):
        kinds = [block["type"] for block in answer.content_blocks]
        assert kinds == ["reasoning", "text", "tool_call", "tool_call"]


class Listener(BaseCallbackHandler):
    """Writes down every new token, and what came at the end."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ended: list[Any] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.heard.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.ended.append(response.generations[0][0].message)


async def _by(model: Any, how: str, config: Any) -> None:
    match how:
        case "stream":
            list(model.stream(ASKED, config=config))
        case "astream":
            [chunk async for chunk in model.astream(ASKED, config=config)]
        case "invoke":
            model.invoke(ASKED, config=config, stream=True)
        case "v3":
            list(model.stream_events(ASKED, config=config, version="v3"))
        case "async v3":
            events = await model.astream_events(ASKED, config=config, version="v3")
            [event async for event in events]


@BETA
@pytest.mark.parametrize("how", ["stream", "astream", "invoke", "v3", "async v3"])
async def test_each_token_is_announced_once(scripted: Make, how: str) -> None:
    model = scripted().bind_tools([clock, MAP])
    listener = Listener()
    await _by(model, how, {"callbacks": [listener]})
    async with asyncio.timeout(9):
        while not listener.ended:  # an event stream tells its listeners a little later
            await asyncio.sleep(0.01)
    assert "".join(listener.heard) == "Both, then."
    (ended,) = listener.ended
    assert [call["name"] for call in ended.tool_calls] == ["clock", "map"]
    assert ended.usage_metadata["output_tokens"] > 0


def test_only_the_last_chunk_has_usage_and_the_finish_reason(scripted: Make) -> None:
    chunks = list(scripted().bind_tools([clock, MAP]).stream(ASKED))
    *before, last = chunks
    assert last.chunk_position == "last"
    assert last.usage_metadata is not None
    assert {"model_name", "finish_reason", "composition"} <= set(last.response_metadata)
    assert not any(c.usage_metadata or c.response_metadata or c.chunk_position for c in before)
