"""The paper's tables: every formula means something, and is found however it is spaced."""

from __future__ import annotations

import pytest

from marith import evals
from marith.evals.paper import toxicity
from marith.evals.paper.paper_tables import published_preferences, table
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check

TERMS = {name: f"You are {name}." for name in ("toxic", "positive", "negative")}


@pytest.mark.parametrize("name", ["toxicity", "toxicity_gpt2", "positive", "negative"])
def test_every_formula_of_the_papers_tables_means_something(name: str) -> None:
    printed = table(name)
    known = resolve({**TERMS, "C": {"formula": 'classifier("pocket-toxicity", label="civil")'}})
    for row in printed.rows:
        check(parse(row.line.formula), known)
        assert set(row.figures) == set(printed.models)
        assert all(len(numbers) == len(printed.measures) for numbers in row.figures.values())
    assert len({line.name for line in printed.lines}) == len(printed.lines)


def test_a_formula_is_found_however_it_is_spaced_and_a_foreign_one_is_not() -> None:
    printed = table("toxicity")
    found = printed.beside("M-0.96*union( toxic,M )")
    assert found["Llama-2-13b"] == (0.201, 11.08)
    assert printed.printed(found["Pythia-12b"]) == "0.170 / 22.87"
    assert printed.beside("M - 0.5*toxic") == {}


def test_judgements_name_formulas_of_their_tables_and_add_up() -> None:
    for task in ("toxicity", "positive", "negative"):
        names = {line.name for line in table(task).lines}
        for judged in published_preferences(task):
            assert {judged.ours, judged.theirs} <= names
            assert all(98 <= sum(numbers) <= 102 for numbers in judged.figures.values())


def test_the_papers_evaluations_are_found_by_their_names() -> None:
    assert evals.toxicity is toxicity
    assert (evals.sentiment.__name__, evals.examples.__name__) == (
        "marith.evals.paper.sentiment",
        "marith.evals.paper.examples",
    )
    with pytest.raises(AttributeError, match="no attribute 'kindness'"):
        _ = evals.kindness
