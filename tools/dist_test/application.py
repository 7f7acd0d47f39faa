"""A user's application, which `tools.dist_test` runs beside the wheel, and checks by mypy."""

from __future__ import annotations

from collections.abc import Iterator

from langchain_core.messages import AIMessage
from llama_index.llms.marith import Marith

import llamaindex_marith
import marith
from langchain_marith import ChatMarith, MarithLLM

QUESTION = "What do you know about bees?"
FORMULA = "0.5*M + 0.5*chef"
TERMS = {"chef": "You are an angry chef."}
STOP = marith.Stop(max_tokens=12)
COLD = marith.Sampling(temperature=0)


def pieces(engine: marith.Engine) -> Iterator[str]:
    for chunk in engine.stream(QUESTION, FORMULA, TERMS, sampling=COLD, stop=STOP):
        yield chunk.text


def answers() -> list[str]:
    """Return one answer by the engine, LangChain's two models, and LlamaIndex."""
    with marith.Engine.load("pocket") as engine:
        completion: marith.Completion = engine.generate(
            QUESTION, FORMULA, TERMS, sampling=COLD, stop=STOP
        )
        texts = [completion.text, "".join(pieces(engine))]
    chat = ChatMarith(model="pocket", formula=FORMULA, terms=TERMS, temperature=0, max_tokens=12)
    message: AIMessage = chat.invoke(QUESTION)
    texts.append(str(message.text))
    llm = MarithLLM(model="pocket", formula=FORMULA, terms=TERMS, temperature=0, max_tokens=12)
    texts.append(llm.invoke(QUESTION))
    query = Marith(model="pocket", formula=FORMULA, terms=TERMS, temperature=0, max_tokens=12)
    texts.append(query.complete(QUESTION).text)
    return texts


def wrong() -> None:
    """Call with invalid types: mypy reports an unused `ignore` where a type is unknown."""
    marith.Stop(max_tokens="12")  # type: ignore[arg-type]
    ChatMarith.from_nothing()  # type: ignore[attr-defined]
    Marith.from_nothing()  # type: ignore[attr-defined]


if __name__ == "__main__":
    assert Marith is llamaindex_marith.Marith
    for text in answers():
        print(repr(text))
