"""The demonstration asks each formula in every way, and prints answers beside measures."""

from __future__ import annotations

import pytest

from marith.demo import FORMULAS, TERMS, run
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check


def test_the_demonstration_prints_all_answers(capsys: pytest.CaptureFixture[str]) -> None:
    run("pocket", "Tell me something interesting about pandas.", seed=1)
    out = capsys.readouterr().out
    for words in ("Engine", "LangChain", "LlamaIndex", "formal", "toxic", "positive"):
        assert words in out
    assert out.count("panda") > 12


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_formula_of_the_demonstration_means_something(formula: str) -> None:
    check(parse(formula), resolve(TERMS))
