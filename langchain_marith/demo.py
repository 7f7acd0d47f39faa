"""The demonstration's question, as a LangChain chain."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from langchain_marith.chat import ChatMarith


def answer(model: str, question: str, formula: str, terms: Mapping[str, str], seed: int) -> str:
    """`prompt | ChatMarith | StrOutputParser`: the application knows no formula."""
    speaker = ChatMarith(
        model=model, formula=formula, terms=dict(terms), temperature=0.7, max_tokens=90, seed=seed
    )
    prompt = ChatPromptTemplate.from_messages([("human", "{question}")])
    return (prompt | speaker | StrOutputParser()).invoke({"question": question})
