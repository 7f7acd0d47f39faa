"""Do LlamaIndex's own query and chat engines run on the LLM: sync, async and streaming?"""

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
from llamaindex_marith.testing.methods import CHAT_METHODS, each_chat_method
from llamaindex_marith.testing.observers import recorded_events, usage_of
from llamaindex_marith.testing.tooling import Voyage

TEXTS = (
    "The Ebro is a river in Spain. It is nine hundred kilometres long.",
    "The Rhone begins at a glacier in Switzerland and ends in France.",
    "The Elbe flows past Dresden and Hamburg to the North Sea.",
)
MODES = ("compact", "refine", "tree_summarize", "simple_summarize", "accumulate")
CHAT_ENGINES = ("simple", "context", "condense_plus_context")
QUESTION = "Where is the Ebro?"

each_chat_engine = pytest.mark.parametrize("kind", CHAT_ENGINES)


class LetterCounts(BaseEmbedding):
    """Embeds a text as its letter counts: deterministic, and different for each text here."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.lower().count(letter)) for letter in ascii_lowercase]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Engines(LLMUnderTest):
    """Query and chat engines. Retrieval is not tested: every text is retrieved."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_a_query_is_answered(self, mode: str) -> None:
        llm = self.llm(max_tokens=6)
        engine = SummaryIndex.from_documents(documents()).as_query_engine(
            llm=llm, response_mode=mode
        )
        plain = str(engine.query(QUESTION))
        assert is_answer(plain)
        assert str(await engine.aquery(QUESTION)) == plain

    @pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize"])
    async def test_a_query_is_answered_in_a_stream(self, mode: str) -> None:
        index, llm = SummaryIndex.from_documents(documents()), self.llm(max_tokens=6)
        plain = str(index.as_query_engine(llm=llm, response_mode=mode).query(QUESTION))
        engine = index.as_query_engine(llm=llm, response_mode=mode, streaming=True)
        response: Any = engine.query(QUESTION)
        assert "".join(response.response_gen) == plain
        response = await engine.aquery(QUESTION)
        assert "".join([token async for token in response.async_response_gen()]) == plain

    def test_a_store_of_vectors_is_queried(self) -> None:
        index = VectorStoreIndex.from_documents(documents(), embed_model=LetterCounts())
        response = index.as_query_engine(llm=self.llm(max_tokens=6)).query(QUESTION)
        assert is_answer(str(response))
        assert response.source_nodes

    async def test_a_query_is_answered_by_an_object(self) -> None:
        self.offered_tools()
        index, llm = SummaryIndex.from_documents(documents()), self.llm(max_tokens=200)
        engine: Any = index.as_query_engine(llm=llm, output_cls=Voyage)
        assert isinstance(engine.query(QUESTION).response, Voyage)
        assert isinstance((await engine.aquery(QUESTION)).response, Voyage)

    @each_chat_engine
    @each_chat_method
    async def test_a_chat_engine_holds_two_turns(self, kind: str, method: str) -> None:
        engine = chat_engine(kind, self.llm(max_tokens=6))
        first = await turn(engine, method, QUESTION)
        second = await turn(engine, method, "And the Elbe?")
        assert is_answer(first)
        assert is_answer(second)
        history = engine.chat_history
        assert [message.role.value for message in history] == ["user", "assistant"] * 2
        texts = [message.content for message in history]
        assert texts == [QUESTION, first, "And the Elbe?", second]

    @each_chat_engine
    async def test_every_way_to_chat_says_the_same(self, kind: str) -> None:
        texts = set()
        for method in CHAT_METHODS:
            engine = chat_engine(kind, self.llm(max_tokens=6))
            texts.add(await turn(engine, method, QUESTION))
        assert len(texts) == 1, texts

    def test_a_chat_engine_reads_what_was_said(self) -> None:
        self.offered(self.supports_usage, "usage")
        engine = chat_engine("simple", self.llm(max_tokens=6))
        counts = []
        for _ in range(2):
            with recorded_answers() as answers:
                engine.chat(QUESTION)
            counts.append(usage_of(answers[0])["prompt"])
        assert counts[0] < counts[1]


def is_answer(text: str) -> bool:
    """Whether a text is neither empty nor what engines return in place of an empty one."""
    return text.strip() not in ("", "Empty Response", "None")


def documents() -> list[Document]:
    """Three texts, each a document of its own."""
    return [Document(text=text) for text in TEXTS]


def chat_engine(kind: str, llm: Any) -> Any:
    """A chat engine of this kind, with a memory of its own."""
    memory = ChatMemoryBuffer.from_defaults(token_limit=400)
    if kind == "simple":
        return SimpleChatEngine.from_defaults(llm=llm, memory=memory)
    index = VectorStoreIndex.from_documents(documents(), embed_model=LetterCounts())
    engine = ContextChatEngine if kind == "context" else CondensePlusContextChatEngine
    return engine.from_defaults(retriever=index.as_retriever(), llm=llm, memory=memory)


async def turn(engine: Any, method: str, question: str) -> str:
    """The whole text with which this method of a chat engine answers."""
    answer = getattr(engine, method)(question)
    if method.startswith("a"):
        answer = await answer
    if method == "stream_chat":
        return "".join(answer.response_gen)
    if method == "astream_chat":
        return "".join([token async for token in answer.async_response_gen()])
    return str(answer)


@contextmanager
def recorded_answers() -> Iterator[list[Any]]:
    """The answers of LLMs within the block; the list is filled when the block ends."""
    answers: list[Any] = []
    with recorded_events() as recorded:
        yield answers
    ends = [event for event in recorded.events if event.class_name() == "LLMChatEndEvent"]
    answers += [event.response for event in ends]
