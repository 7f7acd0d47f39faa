"""The demonstration's question about a few passages, as LlamaIndex asks it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llama_index.core import PromptHelper, PromptTemplate, get_response_synthesizer
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

import marith
from llamaindex_marith.llm import Marith


class SharedWords(BaseRetriever):
    """Retrieves the passage that shares the most words with the question.

    LlamaIndex's own keyword index takes seconds longer, because it imports nltk and scipy.
    """

    def __init__(self, passages: Sequence[str]) -> None:
        super().__init__()
        self.passages = passages

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = _words(query_bundle.query_str)
        scores = [len(asked & _words(passage)) for passage in self.passages]
        best = max(scores)
        return [NodeWithScore(node=TextNode(text=self.passages[scores.index(best)]), score=best)]


def answer(options: marith.Options, question: str, passages: Sequence[str], template: str) -> str:
    """Retrieve a passage, and answer about it with `template`."""
    llm = Marith(**options.chosen())
    synthesizer = get_response_synthesizer(
        llm=llm,
        prompt_helper=PromptHelper.from_llm_metadata(llm.metadata, tokenizer=llm.encode),
        text_qa_template=PromptTemplate(template),
    )
    return str(RetrieverQueryEngine(SharedWords(passages), synthesizer).query(question))


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}
