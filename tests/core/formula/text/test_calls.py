"""Functions that others define for formula text: their names, arguments, and callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import marith
from marith import Formula, FormulaError, Options, Request, define, load_file, parse
from marith.formula.text import calls
from marith.formula.tree.factors import Factor, Varying
from marith.formula.tree.nodes import Name

M, a, b = Name("M"), Name("a"), Name("b")


def halved(model: Formula, other: Formula, share: Factor = 0.5) -> Formula:
    return (1 - share) * model + share * other


def ramp(tokens: int) -> Varying:
    return marith.minimum(marith.position() / tokens, 1)


def repeated(*members: Formula, text: str | None = None, loud: bool = False) -> Formula:
    return marith.union(*members)


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    with patch.dict(calls.CALLS):
        for build in (halved, ramp, repeated):
            define(build.__name__, build)
        yield


def test_text_calls_what_python_calls() -> None:
    assert parse("halved(M, a, 0.2)") == halved(M, a, 0.2)
    assert parse("M + ramp(8)*(a - M)") == M + ramp(8) * (a - M)
    assert parse("halved(M, a, ramp(3)) + b") == halved(M, a, ramp(3)) + b
    assert parse(str(parse("halved(M, a, ramp(3))"))) == halved(M, a, ramp(3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("halved(M)", "halved(model, other, share=0.5): missing a required argument: 'other'"),
        ("halved(M, a, part=2)", "halved(model, other, share=0.5): got an unexpected keyword"),
        ("halved(M, 'You are rude.')", "other of halved is a formula, not 'You are rude.'"),
        ("halved(M, a, 'x')", "share of halved is a number or a function of the context, not 'x'"),
        ("M + ramp(2.5)*a", "tokens of ramp is a whole number, not 2.5"),
        ("M + ramp(0)*a", "a factor cannot be divided by zero: 0"),
        ("repeated(M, a, text=3)", "text of repeated is a text or None, not 3"),
        ("repeated(M, a, loud=1)", "loud of repeated is True or False, not 1"),
        ("repeated(M)", "union takes at least 2 formulas, not 1"),
        ("halvd(M, a)", "'halvd' has no meaning in a formula; did you mean 'halved'?"),
        ("ramp(2)", "a formula needs a term; this is the factor "),
    ],
)
def test_a_wrong_call_is_refused_with_a_sentence_and_a_caret(text: str, said: str) -> None:
    with pytest.raises(FormulaError) as refused:
        parse(text)
    assert said in str(refused.value)
    assert "^" in str(refused.value)


def test_an_error_of_the_function_is_quoted() -> None:
    def broken(of: Formula) -> Formula:
        return {}[str(of)]

    def numeric(of: Formula) -> Any:
        return 3

    define("broken", broken)
    define("numeric", numeric)
    with pytest.raises(FormulaError, match=r"broken failed with KeyError: 'a'\n  M \+ broken"):
        parse("M + broken(a)")
    with pytest.raises(FormulaError, match="numeric must return a formula or a factor, not 3"):
        parse("M + numeric(a)")


def test_annotations_are_read_as_classes_too() -> None:
    def shifted(of, by=0):  # type: ignore[no-untyped-def]
        return of * (1 + by)

    shifted.__annotations__ = {"of": Formula, "by": float | None}
    define("shifted", shifted)
    assert parse("shifted(M, 1)") == 2 * M
    with pytest.raises(FormulaError, match="by of shifted is a number or None, not 'x'"):
        parse("shifted(M, 'x')")


@pytest.mark.parametrize("name", ["union", "cfg", "prompted", "max_prob", "halved"])
def test_a_name_that_has_a_meaning_keeps_it(name: str) -> None:
    before = calls.CALLS[name]
    with pytest.raises(FormulaError, match=f"'{name}' already means something in a formula"):
        define(name, lambda of: of)
    assert calls.CALLS[name] is before


def test_the_same_function_may_be_defined_again() -> None:
    define("halved", halved)


@pytest.mark.parametrize("name", ["", "two words", "a-b", "a.b", "if", "M", "é", "1a", 3, None])
def test_a_name_is_a_plain_word(name: Any) -> None:
    with pytest.raises(FormulaError, match="a formula calls a function by a plain word, not by"):
        define(name, halved)


def test_only_a_function_with_known_arguments_can_be_defined() -> None:
    with pytest.raises(FormulaError, match="'mine' is defined by a function, not by 2"):
        define("mine", 2)  # type: ignore[arg-type]
    with pytest.raises(
        FormulaError, match=r"'mine' cannot be defined as .*max.*, because Python does not show its"
    ):
        define("mine", max)


def test_untrusted_text_calls_what_the_application_allows_alone() -> None:
    for text in ("halved(M, a)", "M + ramp(4)*(a - M)"):
        with pytest.raises(FormulaError, match=r"untrusted formulas may not use.*\n.*\n *\^"):
            parse(text, {"a": "Be kind."}, trusted=False)
    with pytest.raises(FormulaError, match="in term 'x': untrusted formulas may not use halved"):
        parse("M + x", {"x": {"formula": "halved(M, M)"}}, trusted=False)
    kind = {"a": "Be kind."}
    assert parse("halved(M, a)", kind, False, {"halved"}) == parse("halved(M, a)", kind)
    with pytest.raises(FormulaError, match="untrusted formulas may not use ramp"):
        parse("halved(M, a, ramp(3))", kind, trusted=False, allowed=["halved"])


def test_two_lists_of_one_process_allow_different_functions() -> None:
    kind = {"a": "Be kind."}
    halves, ramps = "halved(M, a)", "M + ramp(4)*(a - M)"
    first = Options(terms=kind, trusted=False, allowed=["halved"])
    second = Options(terms=kind, trusted=False, allowed=["ramp"])
    assert parse(first.overridden({"formula": halves}).formula) == parse(halves)
    assert parse(second.overridden({"formula": ramps}).formula) == parse(ramps)
    assert Request("Hi", halves, kind, trusted=False, allowed={"halved"}).formula == parse(halves)
    for options, text in ((first, ramps), (second, halves)):
        for call in ({"formula": text}, {"terms": {"mine": {"formula": text}}}):
            with pytest.raises(FormulaError, match="untrusted formulas may not use"):
                options.overridden(call)
        with pytest.raises(FormulaError, match="untrusted formulas may not use"):
            Request("Hi", text, kind, trusted=False, allowed=options.allowed)


def test_a_call_cannot_extend_the_list_of_allowed_functions() -> None:
    options = Options(trusted=False, allowed=["ramp"])
    with pytest.raises(marith.RequestError, match="must not set 'allowed'; it may set"):
        options.overridden({"formula": "halved(M, M)", "allowed": ["halved"]})


def test_an_allowed_function_cannot_open_a_model_or_a_file() -> None:
    allowed = ("halved", "union", "prompted")
    for text in ('ngram("/etc/passwd")', 'classifier("m")', 'halved(M, ngram("/etc/passwd"))'):
        with pytest.raises(FormulaError, match="untrusted formulas may not use"):
            parse(text, {}, trusted=False, allowed=allowed)


@pytest.mark.parametrize(
    ("allowed", "problem"),
    [
        (("ramp", "halvd"), "allowed contains 'halvd', which is not the name of .*mean 'halved'"),
        ([3], "allowed contains 3, which is not the name of a function"),
        ("halved", "allowed is a list of names of functions, not 'halved'"),
        (None, "allowed is a list of names of functions, not None"),
        ("", "allowed is a list of names of functions, not ''"),
        (b"x", "allowed is a list of names of functions, not b'x'"),
        (["ngram"], "allowed contains 'ngram', which untrusted text must not call; define it as"),
        (["classifier"], "allowed contains 'classifier', which untrusted text must not call"),
    ],
)
def test_a_list_of_what_is_allowed_has_names_that_mean_something(
    allowed: Any, problem: str
) -> None:
    with pytest.raises(FormulaError, match=problem):
        parse("M", None, False, allowed)


def test_a_list_of_what_is_allowed_stands_beside_untrusted_text_alone(tmp_path: Path) -> None:
    file = tmp_path / "marith.toml"
    file.write_text("[model]\nallowed = ['halved']\n", encoding="utf-8")
    for given in (
        lambda: parse("M", allowed=["halved"]),
        lambda: Request("Hi", allowed=["halved"]),
        lambda: Options(allowed=["halved"]),
        lambda: load_file(file, allowed=["halved"]),
    ):
        with pytest.raises(ValueError, match="write trusted=False too"):
            given()
    with pytest.raises(FormulaError, match="is set in code, not in a file"):
        Options.from_file(file, trusted=False)
    with pytest.raises(FormulaError, match="only the application may set the option 'allowed'"):
        load_file(file, trusted=False)
