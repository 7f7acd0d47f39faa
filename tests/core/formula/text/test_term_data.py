"""A text is always a system prompt; formulas and tables are marked; all can become data again."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from support.strategies import formulas

from marith.errors import FormulaError
from marith.formula.text import term_data
from marith.formula.text.term_data import as_data, read_formula, read_term, read_terms
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.operators import union
from marith.formula.tree.terms import Classifier, NGram, Prompted
from marith.scoring.weights.locate import ADAPTERS, EMBEDDED

M, C = Name("M"), Name("C")


@pytest.fixture(autouse=True)
def _nothing_said_yet() -> None:
    term_data._read.cache_clear()


def test_a_term_is_a_text_a_table_or_a_formula() -> None:
    assert read_term("x", "M - C") == Prompted("M - C")
    assert read_term("x", {"formula": "M - C"}) == M - C
    assert read_term("x", {"formula": union(M, C)}) == union(M, C)
    assert read_term("x", union(M, C)) == union(M, C)
    assert read_term("x", {"system": "S", "hide": "h"}) == Prompted("S", hide="h")
    assert read_term("x", {"prompted": "S", "mode": "replace"}) == Prompted("S", mode="replace")
    steered = {"prompted": "S", "vectors": {"v.gguf": 2}, "positions": "answer"}
    assert read_term("x", steered) == Prompted("S", vectors=(("v.gguf", 2.0),), positions="answer")
    assert read_terms({"x": steered, "y": {"vectors": {"v.gguf": 2}}}) == {
        "x": read_term("x", steered),
        "y": Prompted(vectors=(("v.gguf", 2.0),)),
    }
    assert read_term("x", {"ngram": "corpus.txt"}) == NGram("corpus.txt")
    guided = {"classifier": "m", "guide": "M - C"}
    assert read_term("x", guided) == Classifier("m", guide=M - C)


@pytest.mark.parametrize(
    ("term", "says"),
    [
        (5, "term 'x' is a system prompt, a Formula or"),
        (["a"], "term 'x' is a system prompt, a Formula or"),
        ({"prompted": "a", "system": "b"}, "has both 'prompted' and 'system'"),
        ({"formula": "M", "hide": "a"}, "has 'formula' and 'hide'; 'formula' must be the only key"),
        ({"formla": "M"}, "has an unknown key 'formla'; did you mean 'formula'"),
        (
            {"prompt": "You are sad."},
            """an unknown key 'prompt'; write {"system": …}; a table is""",
        ),
        ({"lora": "./rude"}, """an unknown key 'lora'; write {"adapter": …}; a table is"""),
        ({"vector": {"v": 1}}, """an unknown key 'vector'; write {"vectors": …}; a table is"""),
        ({"vektors": {}}, r"'vektors'; did you mean 'vectors'\?; a table is .*, {vectors = …},"),
        ({"vectors": "v.gguf"}, "term 'x': vectors maps files to strengths, such as"),
        ({"ngram": "x", "text": "y"}, "an unknown key 'text'; did you mean 'texts'"),
        ({"classifier": "c", "lora": "x"}, r"an unknown key 'lora'; a table is"),
        ({"formula": 5}, "in term 'x': a formula is a text or a Formula, not 5"),
        ({"formula": "M +"}, "in term 'x': not a formula"),
    ],
)
def test_an_invalid_term_is_refused(term: Any, says: str) -> None:
    with pytest.raises(FormulaError, match=says):
        read_term("x", term)


@given(formulas())
def test_a_term_as_data_is_read_back(formula: Formula) -> None:
    assert read_term("x", json.loads(json.dumps(as_data(formula)))) == formula


def test_a_system_prompt_stays_a_text_as_data() -> None:
    assert as_data(Prompted("2*M")) == "2*M"
    assert as_data(Prompted("Be kind.", mode="replace")) == {
        "formula": 'prompted("Be kind.", mode="replace")'
    }
    assert as_data(Prompted("2*M", vectors=(("v.gguf", 1.5),))) == {
        "formula": 'prompted("2*M", vectors={"v.gguf": 1.5})'
    }
    assert as_data(Prompted()) == {"formula": "prompted()"}


def test_equal_texts_are_parsed_once() -> None:
    text = "M - 0.3*union(C, M)"
    assert read_formula(text) is read_formula(f"{text}") == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("2*kind - M", "M.top_k(3)", "kind", "prompted('k')", "uniform()"),
        *("prompted(vectors={'v.gguf': 0.5})", "classifier('toxic')", "2*ngram('a.txt')"),
    ],
)
def test_a_prompt_that_reads_like_a_formula_is_logged_once(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    terms = {"kind": "Be kind.", "x": text}
    for _ in range(3):
        read_terms(terms)
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert said.getMessage().startswith(
        "term 'x' is used as a system prompt, but its text reads like a formula"
    )
    assert 'if you meant a formula, write {"formula": "…"}' in said.getMessage()
    assert said.getMessage().endswith("--define in a shell")
    assert text not in said.getMessage().removeprefix("term 'x'")


@pytest.mark.parametrize(
    "text",
    [
        *("/no/such/lora", "./adapter", "../a/b", "~/lora", "C:\\lora", "m.Q4.gguf"),
        *("a.safetensors", *EMBEDDED, *ADAPTERS),
    ],
)
def test_a_prompt_that_reads_like_a_path_or_a_model_is_logged_once(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert read_terms({"x": text})["x"] == Prompted(text)
    (said,) = caplog.records
    assert said.getMessage().startswith("term 'x' is a system prompt, and its text is also a path")
    assert 'Prompted(adapter="…")' in said.getMessage()
    assert "--define 'NAME=prompted(adapter=\"…\")' in a shell" in said.getMessage()
    assert text not in said.getMessage()


@pytest.mark.parametrize(
    "text", ["Write to /tmp.", "and/or", "Use ./a", "/", "2 / 3", "Be kind.", "/no_think", "/think"]
)
def test_a_prompt_with_a_slash_is_no_path(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert read_terms({"x": text})["x"] == Prompted(text)
    assert not caplog.records


@pytest.mark.parametrize("text", ["2*unknown - M", "x", "Be kind - M", "kind, M", "7", "2*M +"])
def test_other_prompts_are_not_logged(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert read_terms({"kind": "Be kind.", "x": text})["x"] == Prompted(text)
    assert not caplog.records
