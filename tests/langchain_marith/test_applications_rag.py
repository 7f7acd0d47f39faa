"""The application that answers from what was found: its chain asks what its formula says.

How far answers follow the passages is measured in `tests/evidence`.
"""

from __future__ import annotations

from types import ModuleType

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from support.applications import application

import marith
from marith import Sampling, Stop

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def rag() -> ModuleType:
    return application("langchain_rag")


class Letters(Embeddings):
    """How often each letter occurs."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(text.lower().count(letter)) for letter in LETTERS] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_a_chain_asks_each_formula_about_what_was_found(rag: ModuleType) -> None:
    store = InMemoryVectorStore.from_texts(rag.PASSAGES, Letters())
    chain, engine = rag.chain(store, temperature=0.0), marith.Engine.shared("pocket")
    for question in rag.QUESTIONS[:1]:
        [found] = store.similarity_search(question, k=1)
        prompt = f"<context>\n{found.page_content}\n</context>\n\n{question}"
        texts = {}
        for formula in (rag.PLAIN, rag.CONTEXT_AWARE, rag.PERSONA, rag.BOTH, "without_context"):
            texts[formula] = chain.invoke(question, {"configurable": {"formula": formula}})
            want = engine.generate(prompt, formula, rag.TERMS, Sampling(0.0), Stop(48))
            assert texts[formula] == want.text
        assert len(set(texts.values())) > 1
