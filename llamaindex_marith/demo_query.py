"""The demonstration's question, as a LlamaIndex query over a few documents."""

from __future__ import annotations

from llama_index.core import Document, PromptTemplate, SimpleKeywordTableIndex

import marith
from llamaindex_marith.llm import Marith

DOCUMENTS = (
    "Pandas eat bamboo for twelve hours a day. Pandas live in the cool mountain forests of China.",
    "Volcanoes throw out ash and lava. Some islands were built by volcanoes.",
    "Trains run on steel rails. The first trains were pulled by steam.",
    "Bees dance to tell each other where flowers grow.",
)
TEMPLATE = PromptTemplate("Context: {context_str}\n\n{query_str}")


def answer(options: marith.Options, question: str) -> str:
    """Retrieve by keywords, and let the formula answer beside what was found."""
    llm = Marith(**options.chosen())
    index = SimpleKeywordTableIndex.from_documents(
        [Document(text=text) for text in DOCUMENTS], llm=llm
    )
    engine = index.as_query_engine(llm=llm, retriever_mode="simple", text_qa_template=TEMPLATE)
    return str(engine.query(question))
