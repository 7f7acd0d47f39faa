"""Query engines over a store on disk: the right passage, one answer however asked, a persona."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import PrivateAttr
from support.applications import application

from llamaindex_marith import Marith, context_of
from marith import Prompted

rag = application("llamaindex_rag")
TOLD = ("Lisbon", "pink", "95")
USUAL = ("Paris", "green", "24")


class Noting(rag.MiniLM):
    """The same embeddings, and a note of all that was embedded."""

    _noted: list[str] = PrivateAttr(default_factory=list)

    @property
    def noted(self) -> list[str]:
        return self._noted

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self._noted += texts
        found: list[list[float]] = super()._get_text_embeddings(texts)
        return found


@pytest.fixture(scope="module")
def embedding() -> Noting:
    return Noting()


@pytest.fixture(scope="module")
def folder(embedding: Noting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("store")
    rag.store(made, embedding)
    return made


@pytest.fixture(scope="module")
def index(folder: Path, embedding: Noting) -> Any:
    return rag.stored(folder, embedding)


def test_a_store_is_read_again_without_embedding_a_passage_anew(
    folder: Path, embedding: Noting
) -> None:
    assert any(rag.PASSAGES[0] in text for text in embedding.noted)
    before = len(embedding.noted)
    again = rag.stored(folder, embedding)
    answer = rag.engine(again).query(rag.QUESTIONS[0])
    assert embedding.noted[before:] == [rag.QUESTIONS[0]]
    assert answer.source_nodes[0].text == rag.PASSAGES[0]


@pytest.mark.parametrize("question", rag.QUESTIONS)
async def test_one_answer_is_the_same_however_it_is_asked_for(index: Any, question: str) -> None:
    whole = rag.engine(index).query(question)
    pieces = list(rag.engine(index, streaming=True).query(question).response_gen)
    assert len([piece for piece in pieces if piece]) > 2
    assert "".join(pieces) == str(whole)
    assert str(await rag.engine(index).aquery(question)) == str(whole)
    streamed = await rag.engine(index, streaming=True).aquery(question)
    assert "".join([piece async for piece in streamed.async_response_gen()]) == str(whole)


@pytest.mark.parametrize("faithful", [0, 0.5])
async def test_answers_say_what_the_passages_say_and_not_what_is_usual(
    index: Any, faithful: float
) -> None:
    model = Marith(faithful=faithful, temperature=0, max_tokens=48)
    answers = await rag.answers(rag.engine(index, model))
    for answer, passage, usual in zip(answers, TOLD, USUAL, strict=True):
        assert passage in answer
        assert usual not in answer


def test_what_a_persona_is_faithful_to_stands_in_its_own_template(tmp_path: Path) -> None:
    careful = rag.persona(tmp_path, "careful", seed=6)  # no number is near another token
    hidden = Prompted(hide=context_of(rag.TEMPLATE))
    written = careful.model_copy(
        update={
            "formula": "(2*formal - M).plausible(0.1) + 0.5*(M - without_context)",
            "terms": {**careful.terms, "without_context": {"formula": str(hidden)}},
            "faithful": 0.0,
        }
    )
    question = "What colour is grass?"
    asked = rag.TEMPLATE.format(context_str=rag.PASSAGES[1], query_str=question)
    assert careful.complete(asked).text == written.complete(asked).text
    bare = careful.complete(question, faithful=0)
    assert careful.complete(question).text == bare.text  # nothing was retrieved
