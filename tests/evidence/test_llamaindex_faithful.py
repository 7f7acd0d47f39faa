"""How far answers keep to what was retrieved, through LlamaIndex's own engines and templates."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from support import faithful
from support.contradictions import editions

from tools.pocket.grammar import words
from tools.pocket.grammar.document import Document

CASES = editions()
EACH = [case for cases in CASES for case in cases]
MANY = [CASES[0], CASES[1][:33]]  # 120 questions


Measure = Callable[..., Any]


@pytest.fixture
def measure(capsys: pytest.CaptureFixture[str]) -> Measure:
    """What is answered under a setting, and a line that tells it."""

    def measured(
        setting: str, cases: Any = CASES, seeds: Any = (0,), engine: str = "", **options: Any
    ) -> Any:
        known = {**faithful.SETTINGS[setting], **options}
        row = asyncio.run(faithful.measured(engine or faithful.QUERY, cases, seeds, **known))
        shares = "follows {:.3f} ± {:.3f}".format(*faithful.mean(row.follows))
        shares += "  says the usual {:.3f} ± {:.3f}".format(*faithful.mean(row.remembers))
        with capsys.disabled():
            print(f"\n  {setting:<32} {shares}", end="")
        return row

    return measured


def test_more_than_a_hundred_questions_are_held_out_of_training() -> None:
    assert len({(case.question, case.passage) for case in EACH}) == len(EACH) >= 150
    assert len({case.question for case in EACH}) >= 100
    facts = words.table("passages.toml")["facts"]
    names = {ask: fact["name"] for fact in facts for ask in fact["asks"]}
    for case in EACH:
        assert Document("passage", f"{names[case.question]}/{case.stated}").held_out
        assert case.follows(case.passage)
        assert case.follows(case.again)


def test_embeddings_find_the_passage_that_answers() -> None:
    right = []
    for cases in CASES:
        retriever = faithful.stored(cases, faithful.once).as_retriever(similarity_top_k=1)
        found = [retriever.retrieve(case.question)[0].text for case in cases]
        right += [case.passage == text for case, text in zip(cases, found, strict=True)]
    assert statistics.mean(right) >= 0.9


def test_answers_keep_to_passages_that_contradict_what_is_known(measure: Measure) -> None:
    plain, held = (measure(each, MANY, range(2, 4)) for each in ("plain", "`faithful=0.5`"))
    gained, error = faithful.lift(held, plain)
    assert gained > 0.06
    assert gained > 3 * error
    assert statistics.mean(held.remembers) < statistics.mean(plain.remembers)


def test_a_persona_is_held_to_the_passages_and_keeps_its_voice(measure: Measure) -> None:
    persona, both = (
        measure(each, CASES[:1], engine=faithful.CHAT, max_tokens=24)
        for each in ("`2*formal - M`", "`2*formal - M`, `faithful=0.5`")
    )
    gained, error = faithful.lift(both, persona)
    assert gained > 2 * error
    assert statistics.mean(faithful.formality(both.texts)) > 0.3
