"""Chat over documents as a persona. The second turn reads the first from the cache."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core import Document, SimpleKeywordTableIndex
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent
from llama_index.core.memory import ChatMemoryBuffer
from pydantic import Field

from llamaindex_marith import Marith

DOCUMENTS = (
    "Pandas eat bamboo for twelve hours a day. Pandas live in the cool mountain forests of China.",
    "Volcanoes throw out ash and lava. Some islands were built by volcanoes.",
    "Bees dance to tell others where flowers are. Bees live in hives with one queen.",
)
FORMAL = "You are an assistant using formal and objective language to answer the user."
PERSONA = "2*formal - M"
TURNS = ("What do you know about pandas?", "Where do pandas live?")
# The second question says "they". The model rewrites the question before retrieval.
CONDENSED = ("Tell me something interesting about bees.", "Where do they live?")
# The prompt of `context`, because the prompt of `condense_plus_context` is too long for pocket.
CONTEXT = "Use the context information below to assist the user.\n{context_str}\n"


class Listener(BaseEventHandler):
    """Collects the usage of each answer, from LlamaIndex's instrumentation."""

    used: list[dict[str, int]] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Listener"

    def handle(self, event: Any, **kwargs: Any) -> None:
        if isinstance(event, LLMChatEndEvent) and event.response is not None:
            self.used.append(event.response.raw["usage"])


@contextmanager
def listening() -> Iterator[list[dict[str, int]]]:
    """Collect the usage of every answer inside the block. Chat engines return only the text."""
    dispatcher, listener = get_dispatcher(), Listener()
    dispatcher.add_event_handler(listener)
    try:
        yield listener.used
    finally:
        dispatcher.event_handlers.remove(listener)


def model(formula: str = PERSONA, **options: Any) -> Marith:
    """Return a model with the persona's formula."""
    known = {"terms": {"formal": FORMAL}, "temperature": 0.3, "max_tokens": 64, "seed": 0}
    return Marith(formula=formula, **{**known, **options})


def chat(speaker: Marith, mode: str = "context") -> BaseChatEngine:
    """Return a chat engine over the document that shares the most words with the question."""
    documents = [Document(text=text) for text in DOCUMENTS]
    index = SimpleKeywordTableIndex.from_documents(documents, llm=speaker)
    limit = speaker.metadata.context_window - 256
    return index.as_chat_engine(
        chat_mode=mode,
        llm=speaker,
        memory=ChatMemoryBuffer.from_defaults(token_limit=limit, tokenizer_fn=speaker.encode),
        context_prompt=CONTEXT,
        retriever_mode="simple",
        num_chunks_per_query=1,
    )


def talk(engine: BaseChatEngine, turns: Sequence[str] = TURNS) -> list[str]:
    """Return the answers, turn by turn."""
    return [str(engine.chat(said)) for said in turns]


def stream(engine: BaseChatEngine, turns: Sequence[str] = TURNS) -> list[list[str]]:
    """Yield the answers of all turns in chunks."""
    return [list(engine.stream_chat(said).response_gen) for said in turns]


async def atalk(engine: BaseChatEngine, turns: Sequence[str] = TURNS) -> list[str]:
    """Return the answers, turn by turn, without blocking the event loop."""
    return [str(await engine.achat(said)) for said in turns]


async def astream(engine: BaseChatEngine, turns: Sequence[str] = TURNS) -> list[list[str]]:
    """Return the answers in chunks, without blocking the event loop."""
    told = []
    for said in turns:
        answer = await engine.astream_chat(said)
        told.append([piece async for piece in answer.async_response_gen()])
    return told


def main() -> None:
    with listening() as used:
        answers = talk(chat(model()))
        for question, answer in zip(TURNS, answers, strict=True):
            print(f"{question}\n    {answer}")
        for each in used:
            print(f"    of {each['prompt_tokens']} tokens {each['cached_tokens']} were cached")

    print("bare:", talk(chat(model("M")), TURNS[:1]))
    print("as it comes:", "|".join(stream(chat(model()), TURNS[:1])[0]))
    print("the same:", asyncio.run(atalk(chat(model()), TURNS[:1])) == answers[:1])
    for answer in talk(chat(model(max_tokens=40), "condense_plus_context"), CONDENSED):
        print("condensed:", answer)


if __name__ == "__main__":
    main()
