"""What is wrong in a formula's text, and the sentence that says what to write instead."""

from __future__ import annotations

from support.mistakes import refusal, table

import marith

TERMS = {"chef": "You are a chef.", "formal": "Speak formally."}
NO_MEANING = "this has no meaning in a formula; "

ROWS = [
    ("M^2", f"{NO_MEANING}there are no powers: in a sum write 2*M"),
    ("M**2", f"{NO_MEANING}there are no powers: in a sum write 2*M"),
    ("M.topk(5)", f"{NO_MEANING}did you mean .top_k(…)?"),
    ("M.top_k", f"{NO_MEANING}write M.top_k(…)"),
    ("top_p(M, 0.9)", "'top_p' has no meaning in a formula; a formula has it: M.top_p(…)"),
    ("M.union(chef)", f"{NO_MEANING}write union(M, chef)"),
    ("M | chef", f"{NO_MEANING}write union(M, chef)"),
    ("M and chef", f"{NO_MEANING}write intersection(M, chef)"),
    ("M % 2", f"{NO_MEANING}the operators are +, -, * and /"),
    ("M if chef else formal", f"{NO_MEANING}write where(condition, M, formal)"),
    ("0.5 M", "not a formula: an operator is missing; write 0.5*M"),
    ("2M - chef", "not a formula: an operator is missing; write 2*M"),
    ("2(chef)", f"{NO_MEANING}write 2*chef"),
    ("2formal", "'2formal' is no number; write 2*formal"),
    ("M chef", "not a formula: an operator or a comma is missing between 'M' and 'chef'"),
    ("M -", "not a formula: it ends where a term or a number is needed"),
    ("M − chef", "not a formula: '−' (U+2212, minus sign) has no meaning; write -"),
    ("M – chef", "not a formula: '–' (U+2013, en dash) has no meaning; write -"),
    ("2×chef", "not a formula: '×' (U+00D7, multiplication sign) has no meaning; write *"),
    ("2·chef", "not a formula: '·' (U+00B7, middle dot) has no meaning; write *"),
    (
        "prompted(“Be kind.”)",
        "not a formula: '“' (U+201C, left double quotation mark) has no meaning; write \"",
    ),
    (
        "0,5*chef",
        "a formula needs a term; this is a list; a number is written with a point: 0.5",
    ),
    ("M, chef", "a formula needs a term; this is a list"),
    ("uniom(M, chef)", "'uniom' has no meaning in a formula; did you mean 'union'?"),
    ("dexpert(M, chef, formal)", "'dexpert' has no meaning in a formula; did you mean 'dexperts'?"),
    ("union", "'union' is called, as in union(…), and is no term"),
    ("union M, chef", "not a formula: 'union' is called with parentheses: union(…)"),
    ("union(M)", "union takes at least 2 formulas, not 1"),
    ("cheff - M", "unknown term 'cheff'; did you mean 'chef'?"),
    ("prompted(model=gpt2)", "a model is a text, not gpt2"),
    (
        "You are a chef.",
        'not a formula: words are no formula; a system prompt is written prompted("…")',
    ),
    (
        'prompted(modle="x")',
        "prompted(system='', mode='append', hide=None, model=None, template=None, options=(), "
        "adapter=None, exit_layer=None, device=None, dtype=None): got an unexpected keyword "
        "argument 'modle'; "
        "did you mean 'model'?",
    ),
    ("detox = M - chef", "not a formula: a formula is what is right of =: M - chef"),
    (
        "M + 1",
        "1.0 has no place beside '+' in a formula; a number multiplies a term, as in 0.5*M",
    ),
    ("M * chef", "a formula can be multiplied by a number only, or by a factor: (M) * (chef)"),
    (
        "M - 2*chef",
        "the weights of a formula must add up to more than zero, not -1: with less it would flip "
        "its own preferences",
    ),
    ("M.top_k(0)", "top_k takes a whole number from 1 to 1000000000, not 0"),
    ("(M - chef", "not a formula: '(' was never closed"),
]


@table(ROWS)
def test_it_is_refused_in_one_sentence(typed: str, sentence: str) -> None:
    assert refusal(lambda: marith.explain(typed, TERMS)) == sentence
