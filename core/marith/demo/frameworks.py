"""The demonstration's answers through each installed framework, which is imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

LANGCHAIN, LLAMAINDEX = "LangChain", "LlamaIndex"
MODULES = {
    LANGCHAIN: "langchain_marith.demo_chain",
    LLAMAINDEX: "llamaindex_marith.demo_query",
}

Answer: TypeAlias = "Callable[..., str]"


def answer_function(framework: str) -> Answer | str:
    """Return a function that answers through a framework, or a sentence about a missing package."""
    try:
        answer: Answer = import_module(MODULES[framework]).answer
    except ModuleNotFoundError as error:
        return f"left out: {error.name} is not installed"
    return answer
