"""A text with a fault is a system prompt if it is prose, and an error if it is a formula."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import marith
from marith.errors import FormulaError
from marith.formula.meaning.binding import resolve
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Prompted

OTHERS = {"C": 'classifier("m", label="civil")', "kind": "Be kind.", "toxic": "Be rude."}

PROMPTS = (
    "Formal", "Kind.", "be-polite", "step-by-step", "well-read", "Be polite, not rude.",
    "Be concise; be kind.", "Answer in English", "Answer in English/French", "client/server",
    "he/she", "and/or", "24/7", "1-5", "Top-10", "GPT-4", "Q&A", "R&D", "polite, well-read",
    "Formal(ly)", "Assistant (polite)", "friend(s)", "Yes", "not rude", "kind and polite",
    "Paris is nice", "Honest or silent", "words < 100", "Say \"no\".", "Don't be rude.",
    "You are a chef - angry", "Be kind(er) than M", "kind - but firm - answers please",
    "Rate it 1-5.", "Use <b>tags</b> only.", "C is a language.", "Hello, world!", "C# is old",
    "C++ is a fast language", "C is a language, explain it.",
    "- be kind\n- be brief", "Union members speak like this.", "Answer as a classifier (strict).",
    "请礼貌", "请礼貌。", "Sé amable.", "Tone: warm", "formal, polite", "state-of-the-art", "Hm…",
    "a, b", "7", "", "{name}", "Speak like M and C do.", "2 * 2 is four, they say", "Be toxic!",
    "TL;DR", "3 kind words – no more", "1. kind", "#1 fan", "// no comments",
    "Act as a decay-first system (old).", "M", "Use 3 × width.", "Kind · polite · brief",
    "kind · toxic · C", "Size: 3 × 4", "2×daily", "M·C",
)  # fmt: skip

FORMULAS = (
    'clasifier("pocket-toxicity", label="civil")', "0.5*M + unoin(M, M)", "M.topk(5)", "2*M +",
    "M + C C", "unoin(M, C)", "intersecton(M, kind)", "M - 0.5*toxc", "M - toxc", "kind-toxc",
    "M + 3", "M/0", "M ** 2", "M // 2", "M + C)", "(M + C", "M & C", "M > C", "peek(M)*C",
    '0.5*M + clasifier("m"', 'ngrm("a.txt", order=3)', 'promted("Be kind.")', "M.plausibel(0.1)",
    "2*unknown", "2 * unknown + 3", "a + b", "uniforn()", "-toxc", "kind + ", "M, 0.5*C",
    "M + C # the model and a guide", "superseed(M, kind)", "M.top_k", "peak(M)", "relu(kind",
    "0.5*M + prompted(3)",
    "union (M, C C)", "M+C.topp(0.9)", "supersede(M, kin)", "M − toxic", "M – 2·toxic",
    "3 × kind", "M − 2×toxic", "kind·0.5 + M", "M + 2 · unknown - 2·C",
    "2(kind)", "M.union(kind)", "0.5 M", "2kind - M", "0.5 kind + 0.5 M", "(2 kind) - M",
)  # fmt: skip


@pytest.mark.parametrize("text", PROMPTS)
def test_prose_stays_a_system_prompt(text: str) -> None:
    bound = resolve({"x": text, **OTHERS} if text != "M" else {"M": text})
    assert bound["x" if text != "M" else "M"] == Prompted(system=text)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_with_a_fault_is_no_system_prompt(text: str) -> None:
    with pytest.raises(FormulaError, match=r"term 'x'.*is written prompted\(\"…\"\)"):
        resolve({"x": text, **OTHERS})


def test_the_error_has_the_name_that_was_meant() -> None:
    with pytest.raises(FormulaError, match="did you mean 'classifier'"):
        marith.parse("M + x", {"x": 'clasifier("pocket-toxicity", label="civil")'})


def test_a_prompt_of_any_length_in_a_formula_is_no_system_prompt() -> None:
    text = f'0.5*prompted("{"Be kind. " * 3_000}") + 0.5*M'
    assert resolve({"x": text})["x"] == marith.parse(text, {})


@pytest.mark.parametrize("text", [
    "zq-" + "-".join("1" * 2_500), "zq, " + "-".join("1" * 2_500), ", ".join(["ab-cd"] * 2_500),
    ", ".join(["ab(cd)"] * 2_500), "ab " * 6_000, "a-" * 9_000, "ab(" * 6_000, "2 " * 9_000,
])  # fmt: skip
def test_the_decision_takes_less_than_a_second(text: str) -> None:
    names = {f"name{i}": "Be kind." for i in range(1_000)}
    started = time.process_time()
    try:
        resolve({"x": text, **names}, marith.parse("x"))
    except FormulaError:
        pass
    assert time.process_time() - started < 1


@given(st.lists(st.sampled_from([*PROMPTS, *FORMULAS, " ", "-", "(", "kind", "\n"]), max_size=4))
def test_any_text_is_a_term_or_a_formula_error(pieces: list[str]) -> None:
    try:
        assert isinstance(resolve({"x": "".join(pieces), **OTHERS})["x"], Formula)
    except FormulaError:
        pass
