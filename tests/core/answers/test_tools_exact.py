"""If tools are not steered, the bare model writes the calls and the formula writes the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import pytest
from scipy.stats import chisquare
from support.chat_families import speaker, tool
from support.reference import Reference
from support.small_engine import FlatTimes, assume_times
from torch import Tensor

from marith import Engine, Plan, Request, Sampling, Stop, Tools
from marith.decoding.matcher import Matcher
from marith.engine.jobs import generation
from marith.testing import tiny_model

OPENING = '<tool_call>\n{"name": "'
FORMULA = "2.5*x - 1.5*M + 0.6*opens"
TERMS = {"x": "b c", "opens": {"formula": 'ngram(texts=["<tool_call>"], order=1)'}}
PICK = tool("p", v={"enum": ["a", "b", "d", "e", "g"]}, n={"type": "integer", "minimum": 0})
FORCED = OPENING + 'p", "arguments": {"v": "'


class Aside(Reference):
    """The specification: M speaks once the text has begun a call."""

    def distribution(
        self, request: Request, tokens: list[int], allowed: Tensor | None = None
    ) -> Tensor:
        assert request.tools is not None
        if not request.tools.steer and OPENING in self.vocabulary.spell(tokens):
            request = replace(request, formula="M")
        return super().distribution(request, tokens, allowed)


@dataclass(frozen=True)
class Speaker:
    """An engine and what specifies it."""

    engine: Engine
    reference: Aside

    def allowed(self, request: Request, tokens: list[int]) -> Tensor:
        """What the grammar allows after a text that it reads from its beginning."""
        grammar = self.engine.answers.compiled(request, False)
        assert grammar is not None
        return Matcher(grammar).allowed(tokens, [len(tokens)])[0]


def speakers(kind: str) -> Iterator[Speaker]:
    """A model with random weights."""
    known = speaker(kind)
    model = tiny_model(vocab=known.size, seed=8, sharpness=3.0, context_length=1024)
    with Engine.load(model, tokenizer=known.tokenizer, max_lanes=128) as engine:
        yield Speaker(engine, Aside({None: (model, known)}))


@pytest.fixture(scope="module")
def wild() -> Iterator[Speaker]:
    """One to whom the mark of a call is text, which the n-gram makes it say soon."""
    yield from speakers("hermes")


@pytest.fixture(scope="module")
def marked() -> Iterator[Speaker]:
    """One to whom the mark of a call is a special token, and so written in one way only."""
    yield from speakers("hermes special")


def asked(seed: int, steer: bool = False, choice: str = "auto", **options: Any) -> Request:
    tools = Tools((PICK,), choice, steer=steer)
    given: dict[str, Any] = {"formula": FORMULA, "stop": Stop(90)}
    given |= {"sampling": Sampling(1.0, top_p=0.98, seed=seed), **options}
    return Request("q", terms=TERMS, tools=tools, **given)


@pytest.mark.parametrize(("choice", "steer"), [("auto", False), ("auto", True), ("p", False)])
def test_a_seeded_text_equals_the_text_of_the_reference_decoder(
    wild: Speaker, choice: str, steer: bool
) -> None:
    called = 0
    for seed in (6, 9):  # theirs lie 3e-5 and more from another token, and from where top_p cuts
        request = asked(seed, steer, choice)
        _, tokens, _ = wild.reference.decode(
            request, allowed=lambda text, request=request: wild.allowed(request, text)
        )
        for how in ("auto", None):
            out = wild.engine.submit(replace(request, speculation=how)).result(60)  # type: ignore[arg-type]
            assert out.tokens == tokens
        called += bool(out.calls)
    assert called


@pytest.mark.parametrize("how", [None, "auto"])
def test_log_probabilities_in_an_unsteered_call_are_those_of_the_bare_model(
    wild: Speaker, how: object
) -> None:
    within = outside = 0
    for seed in range(2):
        request = asked(seed, logprobs=2, speculation=how)
        out = wild.engine.submit(request).result(60)
        assert out.logprobs is not None
        for place, one in enumerate(out.logprobs):
            row = wild.reference.distribution(request, out.tokens[:place])[0]
            assert one.logprob == pytest.approx(float(row[one.token]), abs=1e-4)
            assert one.top[0].logprob == pytest.approx(float(row.max()), abs=1e-4)
            bare = OPENING in wild.reference.vocabulary.spell(out.tokens[:place])
            if bare:
                assert one.logprob == pytest.approx(one.terms["prompted()"], abs=1e-6)
            within, outside = within + bare, outside + (not bare)
    assert min(within, outside) >= 30


@pytest.mark.parametrize("how", [None, "auto"])
def test_arguments_are_drawn_from_the_bare_model(
    marked: Speaker, how: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under "auto" the persona drafts, inside the call too, where it has no say in the end."""
    monkeypatch.setattr(generation, "fresh_seed", partial(next, count()))
    assume_times(marked.engine, FlatTimes, monkeypatch)
    forced = marked.reference.vocabulary.encode(FORCED, literal=False)
    request = asked(
        0,
        choice="p",
        sampling=Sampling(1.0),
        stop=Stop(len(forced) + 2),
        formula="supersede(x, 2.5*x - 1.5*M)",
        speculation=how,
    )
    tickets = [marked.engine.submit(request) for _ in range(120)]
    done = [ticket.result(120) for ticket in tickets]
    assert all(out.tokens[: len(forced)] == forced for out in done)
    if how == "auto":
        assert sum(out.stats.drafted for out in done) >= 120
    seen = Counter(out.tokens[len(forced)] for out in done)
    assert p_value(marked, request, forced, seen) > 1e-4
    steered = replace(request, tools=replace(request.tools, steer=True))  # type: ignore[type-var]
    assert p_value(marked, steered, forced, seen) < 1e-6


def p_value(marked: Speaker, request: Request, forced: list[int], seen: Counter[int]) -> float:
    """Chi-square of what followed, against what should be drawn of what may follow."""
    row = marked.reference.distribution(request, forced)[0]
    letters = marked.reference.vocabulary.encode("abdeg")
    assert set(seen) <= set(letters)
    masses = row[letters].double().softmax(-1)
    large = [i for i, mass in enumerate(masses) if mass * seen.total() >= 3]
    observed = [seen[letters[i]] for i in large]
    expected = masses[large] / masses[large].sum() * sum(observed)
    return float(chisquare(observed, expected.tolist()).pvalue)


@pytest.mark.parametrize("steer", [False, True])
def test_a_plan_keeps_calls_that_are_not_steered(wild: Speaker, steer: bool) -> None:
    plans = None, Plan.factors({"x": 1, "M": 3}), Plan.factors({"M": 1, "x": 2, "opens": 2})
    outs = [
        wild.engine.submit(
            asked(0, steer, "p", speculation=plan, sampling=Sampling(temperature=0))
        ).result(60)
        for plan in plans
    ]
    assert outs[0].calls
    assert len({tuple(out.tokens) for out in outs}) == 1
