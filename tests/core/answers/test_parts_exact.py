"""Factors that observe reasoning and calls: the engine samples what the reference decoder does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.chat_families import speaker, tool
from support.distributions import close
from support.reference import Reference
from support.small_engine import FlatTimes, assume_times

from marith import Ban, Engine, Plan, Request, Sampling, Stop, Tools
from marith.decoding.matcher import Matcher
from marith.testing import tiny_model

# The n-gram makes the model open and close its reasoning often.
TERMS = {
    "x": "b c",
    "y": "d",
    "marks": {"formula": 'ngram(texts=["<think>a</think>b"], order=2)'},
}
SPOKEN = "0.5*M + 0.5*y + 2*marks"
FORMULAS = [
    f"where(reasoning() > 0, 0.2*x + 0.8*marks, {SPOKEN})",
    f"{SPOKEN} + 0.7*reasoning()*(x - M)",
    f"{SPOKEN} - 0.4*(1 - reasoning())*union(x, M)",
]
PICK = tool("p", v={"enum": ["a", "b", "d", "e", "g"]})


class Thinker:
    """An engine over random weights, and its reference decoder."""

    def __init__(self, kind: str) -> None:
        known = speaker(kind)
        model = tiny_model(vocab=known.size, seed=8, sharpness=1.5, context_length=1024)
        self.engine = Engine.load(model, tokenizer=known.tokenizer, max_lanes=128)
        self.reference = Reference({None: (model, known)})
        self.vocabulary = known

    def allowed(self, request: Request, opened: bool, tokens: list[int]) -> Any:
        grammar = self.engine.answers.compiled(request, opened)
        assert grammar is not None
        return Matcher(grammar).allowed(tokens, [len(tokens)])[0]


@pytest.fixture(scope="module", params=["thinking special", "opened"])
def thinker(request: pytest.FixtureRequest) -> Iterator[Thinker]:
    made = Thinker(request.param)
    with made.engine:
        yield made


def asked(formula: str, seed: int, **options: Any) -> Request:
    given: dict[str, Any] = {"stop": Stop(30), "sampling": Sampling(1.0, seed=seed), **options}
    return Request("q", formula, TERMS, **given)


@pytest.mark.parametrize("formula", FORMULAS)
def test_texts_with_and_without_drafts_are_those_of_the_reference_decoder(
    thinker: Thinker, formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assume_times(thinker.engine, FlatTimes, monkeypatch)
    parts = set[bool]()
    for seed in range(4):
        one = asked(formula, seed)
        _, tokens, _ = thinker.reference.decode(one)
        for how in (None, "auto"):
            out = thinker.engine.submit(replace(one, speculation=how)).result(60)  # type: ignore[arg-type]
            assert out.tokens == tokens
        parts |= {bool(out.reasoning), bool(out.text)}
    assert True in parts


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_position_has_the_distribution_of_the_reference_decoder(
    thinker: Thinker, formula: str
) -> None:
    """After texts that end in any part of a mark: with a cache, and read at once as a prefix."""
    for text in ("", "<think>a", "<think>a</thi", "<think>a</think>", "a", " <think>", "</think>b"):
        tokens = thinker.vocabulary.encode(text, literal=False)
        one = asked(formula, 0)
        want = thinker.reference.distribution(one, tokens)[0]
        close(thinker.engine.next_logprobs("q", formula, TERMS, continuation=tokens), want)
        out = thinker.engine.submit(replace(one, prefix=tuple(tokens), logprobs=3)).result(60)
        first = (out.logprobs or ())[0]
        assert first.logprob == pytest.approx(float(want[first.token]), abs=1e-4)


def test_a_text_that_a_ban_rolls_back_observes_its_marks_again(thinker: Thinker) -> None:
    one = asked(FORMULAS[0], 1, ban=Ban(["a", "b"], whole_words=False))
    rewinds = 0
    for seed in range(3):
        one = replace(one, sampling=Sampling(1.0, seed=seed))
        outs = [
            thinker.engine.submit(replace(one, speculation=how)).result(60)  # type: ignore[arg-type]
            for how in (None, "auto")
        ]
        _, tokens, _ = thinker.reference.decode(one)
        assert [out.tokens for out in outs] == [tokens, tokens]
        rewinds += outs[0].stats.rewinds
    assert rewinds


def test_reasoning_that_is_not_steered_is_that_of_the_bare_model(thinker: Thinker) -> None:
    formula = f"{SPOKEN} + 0.7*(x - M)"
    composed = f"where(reasoning() > 0, M, {formula})"
    for seed in range(3):
        one = asked(formula, seed, steer_reasoning=False)
        _, tokens, _ = thinker.reference.decode(replace(one, formula=composed))
        outs = [
            thinker.engine.submit(replace(one, speculation=how)).result(60)  # type: ignore[arg-type]
            for how in (None, "auto", Plan.factors({"x": 1, "M": 2, "y": 2, "marks": 1}))
        ]
        assert [out.tokens for out in outs[:2]] == [tokens, tokens]
        assert outs[0].formula == one.formula.__str__()


def test_tools_and_reasoning_are_both_left_to_the_bare_model(thinker: Thinker) -> None:
    formula = f"{SPOKEN} + 0.7*(x - M)"
    tools = Tools((PICK,), "required", steer=False)
    one = asked(formula, 2, steer_reasoning=False, tools=tools, stop=Stop(60))
    composed = f"where(reasoning() > 0, M, where(calling() > 0, M, {formula}))"
    opened = thinker.engine.open(one).opened
    _, tokens, _ = thinker.reference.decode(
        replace(one, formula=composed),
        allowed=lambda text: thinker.allowed(one, opened, text),
    )
    for how in (None, "auto"):
        out = thinker.engine.submit(replace(one, speculation=how)).result(60)  # type: ignore[arg-type]
        assert out.tokens == tokens
