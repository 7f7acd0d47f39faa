"""Do LlamaIndex's own query and chat engines run on it: plain, streaming and waiting?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from string import ascii_lowercase
from typing import Any

import pytest
from llama_index.core import Document, SummaryIndex, VectorStoreIndex
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.memory import ChatMemoryBuffer

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.observers import recorded_events, usage_of
from llamaindex_marith.testing.tooling import Voyage
from llamaindex_marith.testing.ways import each_chat

TEXTS = (
    "The Ebro is a river in Spain. It is nine hundred kilometres long.",
    "The Rhone begins at a glacier in Switzerland and ends in France.",
    "The Elbe flows past Dresden and Hamburg to the North Sea.",
)
MODES = ("compact", "refine", "tree_summarize", "simple_summarize", "accumulate")
CHATTERS = ("simple", "context", "condense_plus_context")
QUESTION = "Where is the Ebro?"

each_chatter = pytest.mark.parametrize("kind", CHATTERS)


class Letters(BaseEmbedding):
    """How often each letter stands in a text: enough to tell the texts here apart, always alike."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.lower().count(letter)) for letter in ascii_lowercase]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Engines(LLMUnderTest):
    """What an application is mostly made of. Retrieval is not tested: every text is found."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_a_query_is_answered(self, mode: str) -> None:
        llm = self.llm(max_tokens=6)
        engine = SummaryIndex.from_documents(documents()).as_query_engine(
            llm=llm, response_mode=mode
        )
        plain = str(engine.query(QUESTION))
        assert says_something(plain)
        assert str(await engine.aquery(QUESTION)) == plain

    @pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize"])
    async def test_a_query_is_answered_in_a_stream(self, mode: str) -> None:
        index, llm = SummaryIndex.from_documents(documents()), self.llm(max_tokens=6)
        plain = str(index.as_query_engine(llm=llm, response_mode=mode).query(QUESTION))
        engine = index.as_query_engine(llm=llm, response_mode=mode, streaming=True)
        told: Any = engine.query(QUESTION)
        assert "".join(told.response_gen) == plain
        waited: Any = await engine.aquery(QUESTION)
        assert "".join([token async for token in waited.async_response_gen()]) == plain

    def test_a_store_of_vectors_is_queried(self) -> None:
        index = VectorStoreIndex.from_documents(documents(), embed_model=Letters())
        told = index.as_query_engine(llm=self.llm(max_tokens=6)).query(QUESTION)
        assert says_something(str(told))
        assert told.source_nodes

    async def test_a_query_is_answered_by_an_object(self) -> None:
        self.offered_tools()
        index, llm = SummaryIndex.from_documents(documents()), self.llm(max_tokens=200)
        engine: Any = index.as_query_engine(llm=llm, output_cls=Voyage)
        assert isinstance(engine.query(QUESTION).response, Voyage)
        assert isinstance((await engine.aquery(QUESTION)).response, Voyage)

    @each_chatter
    @each_chat
    async def test_a_chat_engine_holds_two_turns(self, kind: str, way: str) -> None:
        engine = chatter(kind, self.llm(max_tokens=6))
        told = [await turn(engine, way, words) for words in (QUESTION, "And the Elbe?")]
        assert all(map(says_something, told))
        memory = engine.chat_history
        assert [each.role.value for each in memory] == ["user", "assistant"] * 2
        assert [each.content for each in memory] == [QUESTION, told[0], "And the Elbe?", told[1]]

    @each_chatter
    async def test_every_way_to_chat_says_the_same(self, kind: str) -> None:
        told = set()
        for way in ("chat", "stream_chat", "achat", "astream_chat"):
            engine = chatter(kind, self.llm(max_tokens=6))
            told.add(await turn(engine, way, QUESTION))
        assert len(told) == 1, told

    def test_a_chat_engine_reads_what_was_said(self) -> None:
        self.offered(self.supports_usage, "usage")
        engine = chatter("simple", self.llm(max_tokens=6))
        sizes = []
        for words in (QUESTION, QUESTION):
            with ended() as answers:
                engine.chat(words)
            sizes.append(usage_of(answers[0])["prompt"])
        assert sizes[0] < sizes[1]


def says_something(text: str) -> bool:
    """Whether a text is neither empty nor what engines say in place of an empty one."""
    return text.strip() not in ("", "Empty Response", "None")


def documents() -> list[Document]:
    """Three texts, each a node of its own."""
    return [Document(text=text) for text in TEXTS]


def chatter(kind: str, llm: Any) -> Any:
    """A chat engine of a kind, with a memory of its own."""
    memory = ChatMemoryBuffer.from_defaults(token_limit=400)
    if kind == "simple":
        return SimpleChatEngine.from_defaults(llm=llm, memory=memory)
    index = VectorStoreIndex.from_documents(documents(), embed_model=Letters())
    made = ContextChatEngine if kind == "context" else CondensePlusContextChatEngine
    return made.from_defaults(retriever=index.as_retriever(), llm=llm, memory=memory)


async def turn(engine: Any, way: str, words: str) -> str:
    """What a chat engine answers in the end, by one of its four ways."""
    answer = getattr(engine, way)(words)
    if way.startswith("a"):
        answer = await answer
    if way == "stream_chat":
        return "".join(answer.response_gen)
    if way == "astream_chat":
        return "".join([token async for token in answer.async_response_gen()])
    return str(answer)


@contextmanager
def ended() -> Iterator[list[Any]]:
    """The answers that LLMs gave while this lasted."""
    answers: list[Any] = []
    with recorded_events() as recorded:
        yield answers
    ends = [event for event in recorded.events if event.class_name() == "LLMChatEndEvent"]
    answers += [event.response for event in ends]
