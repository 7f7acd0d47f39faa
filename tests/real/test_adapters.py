"""A LangChain chain and a LlamaIndex query engine say what the engine says, and go on doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from support.applications import application

from langchain_marith import ChatMarith
from llamaindex_marith import Marith
from marith import Engine, Sampling, Stop

FORMULA = "1.5*formal - 0.5*M"
QUESTIONS = ["What is the moon?", "What does a baker do?", "Why is the sky blue?"]
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 24}


def test_a_chain_of_langchain_answers_as_the_engine(
    engine: Engine, terms: dict[str, str], timed: Any
) -> None:
    model = ChatMarith(engine=engine, formula=FORMULA, terms=terms, **GREEDY)
    chain = ChatPromptTemplate.from_messages([("human", "{question}")]) | model | StrOutputParser()
    texts = [
        engine.generate(question, FORMULA, terms, Sampling(temperature=0), Stop(24)).text
        for question in QUESTIONS
    ]
    timed("three texts by the engine")
    assert chain.batch([{"question": question} for question in QUESTIONS]) == texts
    assert "".join(chain.stream({"question": QUESTIONS[0]})) == texts[0]
    timed(f"the same by a chain, in a batch and streamed: {texts[0]!r}")


def test_a_query_engine_of_llamaindex_answers_from_its_passage(
    engine: Engine, terms: dict[str, str], tmp_path: Path, timed: Any
) -> None:
    rag = application("llamaindex_rag")
    index = rag.store(tmp_path, rag.MiniLM(), rag.PASSAGES)
    base = {"M": terms["M"]} if "M" in terms else {}
    model = Marith(engine=engine, terms=base, faithful=0.25, **GREEDY)
    answer = rag.engine(index, model).query("What is the capital of France?")
    timed(f"from its passage: {str(answer)!r}")
    assert answer.source_nodes[0].text == "The capital of France is Lisbon."
    assert "Lisbon" in str(answer)
