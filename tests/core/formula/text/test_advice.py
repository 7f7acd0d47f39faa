"""An error about a formula's text says what to write, and its carets stand under the fault."""

from __future__ import annotations

import time

import pytest

from marith.errors import FormulaError
from marith.formula.meaning.binding import resolve
from marith.formula.meaning.checking import check
from marith.formula.text.advice import NO_MEANING
from marith.formula.text.parsing import parse_text

FAULTS = [
    ("0.5 M - a", "M", "an operator is missing; write 0.5*M"),
    ("a + 3b", "b", "an operator is missing; write 3*b"),
    ("M - (a b)", "b", "an operator or a comma is missing between 'a' and 'b'"),
    ("2formal - M", "2formal", "'2formal' is not a number; write 2*formal"),
    ("größe − M", "−", "'−' (U+2212, minus sign) has no meaning; signs"),
    ("M\xa0- a", " ", "(U+00A0, no-break space) has no meaning; signs, quot"),
    ("M - ‘a’", "‘", "left single quotation mark) has no meaning"),
    ("M（a）", "（", "(U+FF08, fullwidth left parenthesis) has no meaning"),
    ("½*M", "½", "'½' (U+00BD, vulgar fraction one half) has no meaning"),
    ("M + (a + b)**2", "**", "'**' is not an operator of formulas, which are +, -, * and /; to "),
    ("2*größe^2", "^", "'^' is not an operator of formulas, which are +, -, * and /; to "),
    ("2*M^2", "^", "write M.temperature(0.5)"),
    ("a | b + c", "|", "'|' is not an operator of formulas, which are +, -, * and /; for a union"),
    ("M % 2", "%", "'%' is not an operator of formulas, which are +, -, * and /"),
    ("M and a", "M and a", NO_MEANING),
    ("M if 1 else a", "M if 1 else a", "has no if; write, for example, where(max_prob(M) > 0.5"),
    ("M + a.topp(0.5)", "a.topp(0.5)", "'topp' is not a method of a formula; did you mean 'top_p'"),
    ("M.max_prob()", "M.max_prob()", "a method of a formula; it is a function: max_prob(…)"),
    ("peak(M)*M", "peak(M)", "'peak' has no meaning in a formula; there are functions such as"),
    ("mean(M)*M", "mean(M)", "'mean' has no meaning in a formula; there are functions such as"),
    ("strength(a)", "strength(a)", "'strength' has no meaning in a formula; there are functions"),
    ("unon(a, M)", "unon(a, M)", "did you mean 'union'?"),
    ("supersed(a, M)", "supersed(a, M)", "did you mean 'supersede'?"),
    ("M.temp(2)", "M.temp(2)", "did you mean 'temperature'?"),
    ("M + 2*(a*M)", "a*M", "only by a number or a factor, not by a formula; write a + M"),
    ("M + a/(M + b)", "a/(M + b)", "divided only by a number or a factor, not by a formula; "),
    ("log(M)", "log(M)", "; a formula already adds log-probabilities: write M"),
    ("2*softmax(a + b)", "softmax(a + b)", "a formula into probabilities: write a + b"),
    ("log(max_prob(M))*M", "log(max_prob(M))", "no meaning in a formula; a factor is changed by"),
    ("sqrt(2)*M", "sqrt(2)", "there are functions such as union, intersection, mixture, where"),
    ("max(1, max_prob(M))*M", "max(1, max_prob(M))", "did you mean 'maximum'?"),
    ("max(a, M)", "max(a, M)", "did you mean 'union'?"),
    ("where(M == a, M, a)", "M == a", "a condition compares by >, >=, < or <=, not by =="),
    ("0.5*(M - 0,5*a)", "(M - 0,5*a)", "a number is written with a point: 0.5"),
    ("M + 'a", "'a", "a quotation mark is not closed"),
    ("(M +", "(", "'(' was never closed"),
    ("You are kind.", "a", 'a system prompt is written prompted("…")'),
    ("top_p(M, 0.9)", "top_p(M, 0.9)", "a formula has it: M.top_p(…)"),
    ("M -", "-", "it ends where a term or a number is needed"),
    ("union M, chef", "M", "'union' is called with parentheses: union(…)"),
    ("prompted(model=gpt2)", "prompted(model=gpt2)", "a model is a text, not gpt2"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "part", "advice"), FAULTS, ids=[text for text, _, _ in FAULTS])
def test_a_fault_is_marked_and_what_to_write_is_said(text: str, part: str, advice: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_text(text)
    *_, quoted, carets = str(caught.value).split("\n")
    assert quoted[carets.index("^") : len(carets)] == part
    assert advice in caught.value.problem


ADVISED = {
    "entropy(M)": "entropy(M)*M.temperature(0.5) + (1 - entropy(M))*M",
    "max_prob(M) - 2": "(max_prob(M) - 2)*M.temperature(0.5) + (1 - (max_prob(M) - 2))*M",
    "indicator(a - M)": "indicator(a - M)*M.temperature(0.5) + (1 - indicator(a - M))*M",
    "entropy(a) > 2": "where(entropy(a) > 2, M.temperature(0.5), M)",
    "M + (entropy(a) > 2)": "where(entropy(a) > 2, M.temperature(0.5), M)",
    "M if a else b": "where(max_prob(M) > 0.5, M.temperature(0.5), M)",
    "where(0 < entropy(M) < 1, M, a)": "where(entropy(M) > 1, where(max_prob(M) > 0.5, "
    "M.temperature(0.5), M), M)",
    "a*M": "a + M",
    "M/a": "2*M - a",
    "M - 2*entropy(M)*a": "2*M - 2*minimum(0.5, entropy(M))*a",
    "max_prob(M)*M - entropy(M)*a": "M + max_prob(M)*M - minimum(0.5, entropy(M))*a",
    "M - entropy(M)*position()*a": "M - minimum(0.5, entropy(M))*minimum(0.5, position())*a",
}


@pytest.mark.parametrize("text", ADVISED)
def test_the_formula_that_a_message_suggests_is_valid(text: str) -> None:
    terms = resolve({"a": "Be kind."})
    with pytest.raises(FormulaError) as caught:
        check(parse_text(text), terms)
    assert caught.value.problem.endswith(f" {ADVISED[text]}")
    check(parse_text(ADVISED[text]), terms)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("M+" * 9000 + "M", "a sum has 9001 members; 500 are allowed"),
        ("2*(" + "M - " * 4000 + "M)", "a sum has 4001 members; 500 are allowed"),
        ("-" * 9000 + "M", "it is nested too deeply; 60 levels are allowed"),
    ],
    ids=["a sum", "a sum in parentheses", "signs"],
)
def test_what_a_text_has_too_much_of_is_said(text: str, says: str) -> None:
    with pytest.raises(FormulaError, match=says):
        parse_text(text)


@pytest.mark.parametrize("text", ["lambda x: M", "M if a", "a not in", "M[", "$M"])
def test_without_a_rule_the_error_gives_no_advice(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_text(text)
    assert "write" not in caught.value.problem.replace("is written", "")


@pytest.mark.parametrize("piece", ["You are kind. ", "0,5", "9" * 40, "a b=c,", "−"])
def test_advice_about_a_long_text_costs_little(piece: str) -> None:
    text = (piece * 20_000)[:19_000]
    begun = time.thread_time()
    with pytest.raises(FormulaError):
        parse_text(text)
    assert time.thread_time() - begun < 0.2
