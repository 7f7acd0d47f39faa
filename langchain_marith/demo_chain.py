"""The demonstration's question, as a LangChain chain."""

from __future__ import annotations

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

import marith
from langchain_marith.chat import ChatMarith


def answer(options: marith.Options, question: str) -> str:
    """Run `prompt | ChatMarith | StrOutputParser`. The application does not see the formula."""
    prompt = ChatPromptTemplate.from_messages([("human", "{question}")])
    chain = prompt | ChatMarith(**options.chosen()) | StrOutputParser()
    return chain.invoke({"question": question})
