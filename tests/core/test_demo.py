"""The demonstration asks each formula in every way, and prints answers beside measures."""

from __future__ import annotations

import sys

import pytest
from rich.console import Console

from marith import demo
from marith.demo import FORMULAS, TERMS, by_frameworks
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check


def test_the_demonstration_prints_all_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "MAX_TOKENS", 10)
    demo.run("pocket", "Tell me something interesting about pandas.", seed=1)
    out = capsys.readouterr().out
    for words in ("Engine", "LangChain", "LlamaIndex", "formal", "toxic", "positive"):
        assert words in out
    assert out.count("2*formal - M") >= 3  # once in the table of each way


def test_a_framework_that_is_not_installed_is_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "langchain_marith.demo_chain", raising=False)
    monkeypatch.setitem(sys.modules, "langchain_core.prompts", None)
    assert list(by_frameworks(Console())) == ["LlamaIndex"]
    said = "LangChain is left out: langchain_core.prompts is not installed"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_formula_of_the_demonstration_means_something(formula: str) -> None:
    check(parse(formula), resolve(TERMS))
