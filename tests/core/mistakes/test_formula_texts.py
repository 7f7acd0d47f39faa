"""What is wrong in a formula's text, and the sentence that says what to write instead."""

from __future__ import annotations

from support.mistakes import refusal, table

import marith

TERMS = {"chef": "You are a chef.", "formal": "Speak formally."}
NO_MEANING = "this has no meaning in a formula; "

ROWS = [
    ("M^2", f"{NO_MEANING}there are no powers: in a sum write 2*M"),
    ("M.top_k", f"{NO_MEANING}write M.top_k(…)"),
    ("top_p(M, 0.9)", "'top_p' has no meaning in a formula; a formula has it: M.top_p(…)"),
    ("M % 2", f"{NO_MEANING}the operators are +, -, * and /"),
    ("2(chef)", f"{NO_MEANING}write 2*chef"),
    ("M -", "not a formula: it ends where a term or a number is needed"),
    ("union", "'union' is called, as in union(…), and is no term"),
    ("union M, chef", "not a formula: 'union' is called with parentheses: union(…)"),
    ("cheff - M", "unknown term 'cheff'; did you mean 'chef'?"),
    ("prompted(model=gpt2)", "a model is a text, not gpt2"),
    ("detox = M - chef", "not a formula: a formula is what is right of =: M - chef"),
]


@table(ROWS)
def test_it_is_refused_in_one_sentence(typed: str, sentence: str) -> None:
    assert refusal(lambda: marith.explain(typed, TERMS)) == sentence
