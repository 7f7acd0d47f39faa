"""Query engines over a store on disk: the right passage, one answer however asked, a persona."""

from __future__ import annotations

import asyncio
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.prompts.chat_prompts import CHAT_TEXT_QA_PROMPT
from pydantic import PrivateAttr
from support.applications import Report, application

from llamaindex_marith import Marith, context_of
from llamaindex_marith.retrieved_text import RETRIEVED
from marith import Prompted
from tools.pocket.grammar import words

rag = application("llamaindex_rag")
TOLD = ("Lisbon", "pink", "95")
USUAL = ("Paris", "green", "24")
PEOPLE = 24


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


def test_questions_find_the_passages_that_answer_them(index: Any) -> None:
    retriever = index.as_retriever(similarity_top_k=1)
    asked = (*rag.QUESTIONS, *rag.PEOPLE, "Where do pandas live?")
    assert [retriever.retrieve(each)[0].text for each in asked] == list(rag.PASSAGES)


@pytest.mark.parametrize("question", rag.QUESTIONS)
async def test_one_answer_is_the_same_however_it_is_asked_for(index: Any, question: str) -> None:
    whole = rag.engine(index).query(question)
    pieces = list(rag.engine(index, streaming=True).query(question).response_gen)
    assert len([piece for piece in pieces if piece]) > 2
    assert "".join(pieces) == str(whole)
    assert str(await rag.engine(index).aquery(question)) == str(whole)
    streamed = await rag.engine(index, streaming=True).aquery(question)
    assert "".join([piece async for piece in streamed.async_response_gen()]) == str(whole)


async def test_questions_asked_at_once_are_answered_as_one_by_one(index: Any) -> None:
    engine = rag.engine(index)
    alone = [str(engine.query(question)) for question in rag.QUESTIONS]
    assert await rag.answers(engine, rag.QUESTIONS * 4) == alone * 4


@pytest.mark.parametrize("faithful", [0, 0.5])
async def test_answers_say_what_the_passages_say_and_not_what_is_usual(
    index: Any, faithful: float
) -> None:
    model = Marith(faithful=faithful, temperature=0, max_tokens=48)
    answers = await rag.answers(rag.engine(index, model))
    for answer, passage, usual in zip(answers, TOLD, USUAL, strict=True):
        assert passage in answer
        assert usual not in answer


def test_being_faithful_raises_the_odds_of_the_passage_over_what_is_usual() -> None:
    plain, faithful = Marith(), Marith(faithful=0.5, faithful_to=RETRIEVED)
    engine = plain.engine()

    def odds(model: Marith, question: str, passage: str, told: str, usual: str) -> float:
        messages = CHAT_TEXT_QA_PROMPT.format_messages(context_str=passage, query_str=question)
        prompt = [{"role": each.role.value, "content": each.content or ""} for each in messages]
        texts = (passage, passage.replace(told, usual))
        in_passage, usual = (sum(engine.score(prompt, text, model.faithfully)) for text in texts)
        return in_passage - usual

    for case in zip(rag.QUESTIONS, rag.PASSAGES[:3], TOLD, USUAL, strict=True):
        assert odds(faithful, *case) > odds(plain, *case)


def people() -> list[tuple[str, str, int]]:
    """Texts that tell of a person, and what they tell."""
    draw, listed = random.Random(3), []
    for name in dict.fromkeys(words.draw("full_name", draw) for _ in range(PEOPLE)):
        city, age = draw.choice(("Lisbon", "Oslo", "Porto", "Vienna")), draw.randint(18, 90)
        listed.append((f"{name} is a painter from {city}. {name} is {age} years old.", city, age))
    return listed


async def test_objects_are_of_their_class_and_read_off_the_right_passage(
    embedding: Noting, tmp_path: Path, report: Report
) -> None:
    listed = people()
    index = rag.store(tmp_path, embedding, [text for text, _, _ in listed])
    engine = rag.engine(index, output_cls=rag.Person)
    asked = [f"Who is {text.split(' is ')[0]}?" for text, _, _ in listed]
    found = await asyncio.gather(*map(engine.aquery, asked))
    assert all(isinstance(each.response, rag.Person) for each in found)
    pairs = list(zip(found, listed, strict=True))
    shares = {
        "passages": [each.source_nodes[0].text == text for each, (text, _, _) in pairs],
        "cities": [each.response.city == city for each, (_, city, _) in pairs],
        "ages": [each.response.age == age for each, (_, _, age) in pairs],
    }
    means = {name: statistics.mean(right) for name, right in shares.items()}
    report("objects: " + "  ".join(f"{name} {mean:.3f}" for name, mean in means.items()))
    assert means["passages"] >= 0.9
    assert means["cities"] >= 0.7
    assert means["ages"] >= 0.7


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
    for passage in rag.PASSAGES[:3]:
        asked = rag.TEMPLATE.format(context_str=passage, query_str=question)
        assert careful.complete(asked).text == written.complete(asked).text
    bare = careful.complete(question, faithful=0)
    assert careful.complete(question).text == bare.text  # nothing was retrieved
