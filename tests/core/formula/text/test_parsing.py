"""Text becomes a formula or a FormulaError with a caret; nothing is ever run."""

from __future__ import annotations

import builtins
import gc
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from marith.errors import FormulaError
from marith.formula.text.parsing import parse_text
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.terms import Classifier, NGram, Prompted

M, a, b, C = Name("M"), Name("a"), Name("b"), Name("C")
WORDS = ["M", "a", "union", "prompted", "top_k", "__import__", "lambda", "for", "in", "if", "1e999",
         "0.5", "7", "'s'", '"', "'", "f'", "{", "}", "(", ")", "[", "]", ",", ".", "+", "-", "*",
         "**", "/", "//", "@", "=", ":=", ":", "\\", "\n", "\r", " ", "\t", "#", "ß", "1j", "None",
         "True", "...", "~", "not ", "\x00", "\x0c", "options=", "hide=", "vectors=", "0x", "1_0",
         "−", "“", "½", "\xa0", "model=", "/a/b", "^", "|", "1,5", "top_k(M, 1)"]  # fmt: skip

GOOD = [
    ("M", M),
    ("  M\n - a ", M - a),
    ("2*3*M/4", 1.5 * M),
    ("(1 + 1/2)*M", 1.5 * M),
    ("-M", -M),
    ("+M", M),
    ("- -M", M),
    ("M*2", 2 * M),
    ("M.top_k(40).top_p(0.9)", M.top_k(40).top_p(0.9)),
    ("prompted('x', mode='replace')", Prompted("x", mode="replace")),
    ("prompted('x' 'y')", Prompted("xy")),
    ("prompted('ß', options={'think': False})", Prompted("ß", options=(("think", False),))),
    (
        "prompted('x', vectors={'a.gguf': 1.2, 'b': -1/2, 'c': 0}, positions='answer')",
        Prompted("x", vectors=(("a.gguf", 1.2), ("b", -0.5), ("c", 0.0)), positions="answer"),
    ),
    ("classifier('m', label=-1, guide=M)", Classifier("m", label=-1, guide=M)),
    ("ngram(texts=['x', 'y'], order=3)", NGram(texts=("x", "y"), order=3)),
    ("größe", Name("größe")),
]


@pytest.mark.parametrize(("text", "formula"), GOOD, ids=[text for text, _ in GOOD])
def test_text_is_pythons_arithmetic(text: str, formula: Formula) -> None:
    assert parse_text(text) == formula


def caret(error: FormulaError) -> str:
    """What stands above the carets in an error's message."""
    *_, quoted, carets = str(error).split("\n")
    return quoted[carets.index("^") : len(carets)]


FAULTS = [
    ("M + a*b", "a*b", "multiplied only by a number"),
    ("M + 1", "M + 1", "1.0 cannot be an operand"),
    ("größe + a*b", "a*b", "multiplied only by a number"),
    ("M + __import__('os')", "__import__('os')", "no meaning"),
    ("M + (lambda: M)", "lambda: M", "no meaning"),
    ("M + a.b(1)", "a.b(1)", "'b' is not a method of a formula; there are top_k, top_p, "),
    ("union(*a)", "*a", "no meaning"),
    ("M + (a < b)", "a < b", "factors, and a is a distribution; compare a factor"),
    ("M + True*a", "True", "True cannot be added or multiplied: only terms, numbers and factors"),
    ("M + 'x'*3", "'x'", r"'x' is a text, and not a term: write prompted\('x'\), or name it in"),
    ("M + [a]", "[a]", r"\[a\] cannot be added or multiplied"),
    ("M + 1e999*a", "1e999", "finite"),
    ("M + 1/0*a", "1/0", "zero"),
    ("M + a/0", "a/0", "divided by zero"),
    ("M + 1e300*1e300*a", "1e300", "finite"),
    ("M + (2).top_k(3)", "2", "a term is needed"),
    ("7", "7", r"needs a term; this is the number 7, .* write, for example, 2\*M"),
    ("'hello'", "'hello'", r"needs a term; this is the text 'hello': write prompted\('hello'\)"),
    (
        "max_prob(M) > 2",
        "max_prob(M) > 2",
        r"the condition .*: write, for example, where\(max_prob\(M\) > 2",
    ),
    ("M, a", "M, a", "needs a term"),
    ("prompted(vectors={happy: 1})", "happy", "the names in {…} must be texts in quotes"),
    (
        "M + prompted(vectors={'v': entropy(M)})",
        "prompted(vectors={'v': entropy(M)})",
        r"the strength of the vector 'v' is a number, not entropy\(M\)",
    ),
]


@pytest.mark.parametrize(("text", "part", "says"), FAULTS, ids=[text for text, _, _ in FAULTS])
def test_a_fault_is_quoted_with_carets_right_under_it(text: str, part: str, says: str) -> None:
    with pytest.raises(FormulaError, match=says) as caught:
        parse_text(text)
    assert text in str(caught.value)
    assert caret(caught.value) == part
    assert caught.value.start == text.index(part)


@pytest.mark.parametrize("name", ["vectors", "options"])
def test_a_name_that_stands_twice_in_a_table_is_refused(name: str) -> None:
    with pytest.raises(FormulaError, match=r"'a' is named twice in \{…\}") as caught:
        parse_text(f"M + prompted({name}={{'a': 1, 'b': 1, 'a': 2}})")
    assert caret(caught.value) == "'a'"
    assert caught.value.start == len(f"M + prompted({name}={{'a': 1, 'b': 1, ")


@pytest.mark.parametrize(("text", "at"), [("M +", 2), ("M a", 2), ("(M", 0), ("M = a", 0)])
def test_a_syntax_error_has_a_caret_near_the_fault(text: str, at: int) -> None:
    with pytest.raises(FormulaError, match="not a formula") as caught:
        parse_text(text)
    assert text in str(caught.value)
    assert at <= caught.value.start <= len(text)


def test_a_long_text_is_quoted_around_its_fault() -> None:
    text = "M + " * 100 + "a*b" + " + M" * 100
    with pytest.raises(FormulaError) as caught:
        parse_text(text)
    assert caret(caught.value) == "a*b"
    assert len(str(caught.value).split("\n")[1]) < 100


@pytest.mark.parametrize("text", ["", "   ", "\n", "\t \n", "M\x00", "\x00"])
def test_empty_and_null_texts_are_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        parse_text(text)


@pytest.mark.parametrize("value", [None, 5, b"M", ["M"], M])
def test_a_value_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(FormulaError, match="not"):
        parse_text(value)


@pytest.mark.parametrize(
    "text",
    ["M + " * 250_000 + "M", "(" * 5000 + "M" + ")" * 5000, "-" * 9000 + "M",
     "union(" * 90 + "M" + ", M)" * 90, "M" + ".top_k(1)" * 2000, "M+" * 9999 + "M",
     "prompted(options=" + "[" * 150 + "]" * 150 + ")", "9" * 5000 + "*M"],
    ids=["1 MB", "parentheses", "minus", "calls", "cuts", "chain", "lists", "digits"],
)  # fmt: skip
def test_a_text_too_long_or_too_deep_is_refused(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_text(text)
    assert len(str(caught.value)) < 1000


ATTACKS = [
    "__import__('os').system('touch x')", "eval('1')*M", "exec('1')", "open('/etc/passwd')",
    "M + print(1)", "M.__init__.__globals__", "(lambda: os.system('x'))()*M",
    "[os.system('x') for _ in 'a'][0]*M", "prompted(str(open('x')))", "M.top_k(eval('3'))",
    "prompted('x'.format(os))", "prompted(f'{os.system(1)}')", "getattr(M, 'name')",
]  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS)
def test_parsing_runs_no_code(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    with monkeypatch.context() as patch:
        for module, name in ((os, "system"), (builtins, "eval"), (builtins, "exec"),
                             (builtins, "open"), (builtins, "print")):  # fmt: skip
            patch.setattr(module, name, lambda *given, **_: ran.append(given))
        with pytest.raises(FormulaError):
            parse_text(text)
    assert ran == []


@given(st.text() | st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
@example("\ud800")
@example("M\x0c+a")
@example("(M\r+ b)")
def test_any_text_is_a_formula_or_a_formula_error(text: str) -> None:
    try:
        formula = parse_text(text)
    except FormulaError:
        return
    assert isinstance(formula, Formula)
    assert parse_text(str(formula)) == formula


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that take turns at every chance, and garbage that is looked for all the time."""
    turn, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(100)
    yield
    sys.setswitchinterval(turn)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("restless")
def test_threads_that_read_at_once_do_not_disturb_each_other() -> None:
    """While Python builds a syntax tree it lets garbage go, and then another thread go on."""
    text = " + ".join(["M - 0.96*union(toxic, M) + 0.04*C"] * 4)

    class Circle:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None: ...

    def read_often(_: int) -> list[Formula]:
        return [parse_text(text) for _ in range(150) if Circle()]

    with ThreadPoolExecutor(4) as pool:
        formulas = [one for several in pool.map(read_often, range(4)) for one in several]
    assert {*formulas} == {parse_text(text)}


def test_the_caret_is_right_after_a_carriage_return() -> None:
    text = "(M +\r\n a*b)"
    with pytest.raises(FormulaError) as caught:
        parse_text(text)
    assert caret(caught.value) == "a*b"


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\n\n"])
@pytest.mark.parametrize(
    "text",
    ["prompted('a%sb')", 'M + prompted("a%sb")', "ngram(texts=['%s'])", 'prompted("""%s""")'],
)
def test_a_line_break_within_quotation_marks_is_refused(text: str, line_break: str) -> None:
    with pytest.raises(FormulaError, match=r"stays on one line; write \\n"):
        parse_text(text.replace("%s", line_break))
    assert parse_text(text.replace("%s", r"\n"))


@pytest.mark.parametrize("text", ["M\n+ a", "\nM + a\n", "prompted('a')\r\n+ M"])
def test_a_line_break_outside_quotation_marks_is_a_space(text: str) -> None:
    assert parse_text(text) == parse_text(" ".join(text.split()))


def test_the_length_that_is_refused_is_the_length_that_is_compared() -> None:
    prompted = f'prompted("{"a" * 50_000}")'
    with pytest.raises(FormulaError, match="at most 20000 characters, not 30013"):
        parse_text(f"{prompted} + " + "M+" * 15_004 + "M")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prompted(sytem='a')", "Prompted takes no 'sytem'; did you mean 'system'?"),
        ("prompted(lora='a')", "Prompted takes no 'lora'; write adapter=…"),
        ("union(M, a, foo=1)", r"union\(\*\w+\): got an unexpected keyword argument 'foo'$"),
        ("supersede(M, M, M)", r"supersede\(\w+, \w+\): too many positional arguments"),
        ("cfg(M, unconditonal=M)", "missing a required argument: 'unconditional'"),
        ("M.top_k(kk=3)", r"top_k\(\w+\): missing a required argument: 'k'"),
        ("classifier()", r"classifier\(model.*missing a required argument: 'model'"),
    ],
)
def test_arguments_that_a_call_does_not_take_are_answered_by_what_it_takes(
    text: str, says: str
) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_text(text)
    assert re.search(says, caught.value.problem)
