"""The demonstration's question, as a LlamaIndex query over a few documents."""

from __future__ import annotations

from collections.abc import Mapping

from llama_index.core import Document, SimpleKeywordTableIndex

from llamaindex_marith.llm import Marith

DOCUMENTS = (
    "Pandas eat bamboo for twelve hours a day. Pandas live in the cool mountain forests of China.",
    "Volcanoes throw out ash and lava. Some islands were built by volcanoes.",
    "Trains run on steel rails. The first trains were pulled by steam.",
    "Bees dance to tell each other where flowers grow.",
)


def answer(model: str, question: str, formula: str, terms: Mapping[str, str], seed: int) -> str:
    """Retrieve by keywords, and let the formula answer from what was found."""
    speaker = Marith(
        model=model, formula=formula, terms=dict(terms), temperature=0.7, max_tokens=90, seed=seed
    )
    index = SimpleKeywordTableIndex.from_documents(
        [Document(text=text) for text in DOCUMENTS], llm=speaker
    )
    return str(index.as_query_engine(llm=speaker, retriever_mode="simple").query(question))
