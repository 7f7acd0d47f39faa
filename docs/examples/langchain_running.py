"""Use LangChain's fallbacks, batches, events, caches and callbacks with a formula."""

import asyncio

from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable

from langchain_marith import ChatMarith

TERMS = {"formal": "You are an assistant using formal and objective language to answer the user."}
SPOKEN = {"formula": "1.5*formal - 0.5*M", "terms": TERMS, "temperature": 0.5, "max_tokens": 24}
QUESTIONS = ("What do you know about comets?", "How do I boil an egg?", "Why do cats purr?")
PROMPT = ChatPromptTemplate([("system", "You are a helpful assistant."), ("user", "{question}")])


def short_then_long() -> Runnable:
    """Return a model with a short context, and a longer one for prompts that do not fit."""
    short = ChatMarith(**SPOKEN, context_length=96, seed=1)
    long = ChatMarith(**SPOKEN, seed=1)
    return short.with_fallbacks([long], exceptions_to_handle=(ContextOverflowError,))


def cached() -> ChatMarith:
    """Return a model with a cache, which answers repeated questions with equal options."""
    return ChatMarith(**SPOKEN, cache=InMemoryCache())


def chain(seed: int | None = 1) -> Runnable[dict[str, str], str]:
    return PROMPT | ChatMarith(**SPOKEN, seed=seed) | StrOutputParser()


async def pieces_of(chain: Runnable[dict[str, str], str], question: str) -> list[str]:
    """Return the chunks that the model streams inside a chain."""
    events = chain.astream_events({"question": question}, version="v2")
    said = [event async for event in events if event["event"] == "on_chat_model_stream"]
    return [event["data"]["chunk"].text for event in said]


def main() -> None:
    print("a fallback:", short_then_long().invoke("Tell me about comets. " * 20).text)

    usage = UsageMetadataCallbackHandler()
    inputs = [{"question": question} for question in QUESTIONS]
    for answer in chain().batch(inputs, {"callbacks": [usage]}):
        print("one of a batch:", answer)
    print("what the batch used:", usage.usage_metadata)

    print("as it comes:", "|".join(asyncio.run(pieces_of(chain(), QUESTIONS[0]))))

    model = cached()
    first, again = (model.invoke(QUESTIONS[0]) for _ in range(2))
    assert isinstance(first, AIMessage)
    print("from the cache:", again.text == first.text)


if __name__ == "__main__":
    main()
