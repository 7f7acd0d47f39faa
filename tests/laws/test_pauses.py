"""Law: a request may be paused at any steps, any number of times, and its text stays the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.architectures.models import build, endless
from support.checked_engine import FORMULAS, CheckedEngine, request, wait_until_idle
from support.golden_cases import cases
from support.held_passes import endless_engine, endless_model, hold_passes, scorer_of
from support.pauses import Pause, pausing, scripts

from marith import Completion, Engine, NGram, Plan, Request, Sampling, Stop
from marith.scoring import choose_runner

PLANS = (
    None,
    "auto",
    Plan.factors({"x": 3}),
    Plan.drafts(NGram(order=3, online=True)),
    Plan.drafts("M", length=4),
)
LAWS = (*FORMULAS, "M + 0.5*posterior(x, y)")
KINDS = ("grammar", "tools", "ban", "stop")
ALWAYS = [Pause(frozenset(range(24)), drops=True)] * 12
HALF = [Pause(frozenset({i % 2}), drops=i % 3 == 0, holds=i % 4 == 1) for i in range(24)]
asked = st.lists(
    st.tuples(st.sampled_from(LAWS), st.integers(0, 99), st.sampled_from(PLANS)),
    min_size=1,
    max_size=4,
)
_salts = count()


def salted(requests: Sequence[Request]) -> list[Request]:
    """Return requests that share no cached prefix with any other request."""
    return [replace(each, cache_salt=f"{next(_salts)}") for each in requests]


def together(engine: Engine, requests: Sequence[Request]) -> list[Completion]:
    tickets = [engine.submit(each) for each in salted(requests)]
    return [ticket.result(120) for ticket in tickets]


def paused(engine: Engine, requests: Sequence[Request], script: Sequence[Pause]) -> list[Any]:
    """Return the completions of requests that are paused as the script says."""
    wait_until_idle(engine)
    with pausing(engine, script):
        out = together(engine, requests)
        wait_until_idle(engine)
    return out


def require_equal(plain: Sequence[Completion], again: Sequence[Completion]) -> None:
    """Assert that two runs of the same requests have the same results."""
    for one, other in zip(plain, again, strict=True):
        assert (one.text, one.tokens) == (other.text, other.tokens)
        assert (one.reasoning, one.finish_reason) == (other.reasoning, other.finish_reason)
        assert [(call.name, call.arguments) for call in one.calls] == [
            (call.name, call.arguments) for call in other.calls
        ]
        assert one.usage == other.usage
        assert one.stats.rewinds == other.stats.rewinds
        for before, after in zip(one.logprobs or (), other.logprobs or (), strict=True):
            assert before.logprob == pytest.approx(after.logprob, abs=1e-4)


@example(drawn=[(formula, i, None) for i, formula in enumerate(FORMULAS[:4])], script=ALWAYS)
@example(drawn=[(formula, 7, PLANS[1]) for formula in LAWS[-3:]], script=HALF)
@given(drawn=asked, script=scripts())
def test_pauses_change_no_text(
    checked: CheckedEngine, drawn: list[tuple[str, int, Any]], script: list[Pause]
) -> None:
    requests = [
        replace(request(checked, formula, i), speculation=plan, logprobs=1)
        for formula, i, plan in drawn
        if not isinstance(plan, Plan) or not plan.every or "x" in formula
    ]
    plain = together(checked.engine, requests)
    require_equal(plain, paused(checked.engine, requests, script))


@pytest.fixture(scope="module")
def pocket() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.mark.parametrize("kind", KINDS)
def test_pauses_change_no_answer_of_a_given_form(pocket: Engine, kind: str) -> None:
    found = [case.request for case in cases() if case.name.startswith(kind)]
    requests = [each for each in found if each.speculation != "auto"][::2]
    assert len(requests) >= 3
    plain = together(pocket, requests)
    draw = Random(kind)
    script = [
        Pause(frozenset(draw.sample(range(8), 3)), draw.random() < 0.3, draw.random() < 0.3)
        for _ in range(40)
    ]
    before = pocket.status().paused
    require_equal(plain, paused(pocket, requests, script))
    assert pocket.status().paused >= before + 3


@pytest.mark.parametrize("name", ["mamba2", "falcon_h1", "llama"])
def test_pauses_change_no_text_of_a_recurrent_model(name: str) -> None:
    text = "a b c d e f g h " * 40
    with Engine.load(build(name), tokenizer=endless()) as engine:
        requests = [
            Request(f"{i} {text[: 100 * i]}", formula, {"x": "q r"}, Sampling(seed=i), Stop(20),
                    speculation=plan, logprobs=0)
            for i, (formula, plan) in enumerate([("M", None), ("M + x", None), ("M", "auto")])
        ]  # fmt: skip
        plain = together(engine, requests)
        require_equal(plain, paused(engine, requests, HALF))
        require_equal(plain, paused(engine, requests, ALWAYS))


def test_a_stream_does_not_notice_a_pause(checked: CheckedEngine) -> None:
    one = replace(request(checked, "2*x - M", 3), stop=Stop(24))
    chunks = [(chunk.text, chunk.tokens) for chunk in checked.engine.submit(one)]
    wait_until_idle(checked.engine)
    with pausing(checked.engine, ALWAYS):
        again = [(chunk.text, chunk.tokens) for chunk in checked.engine.submit(one)]
    assert again == chunks
    assert len(chunks) > 4


def test_tokens_that_a_paused_text_has_read_itself_do_not_count_as_cached(
    pocket: Engine,
) -> None:
    start = "The sea is wide and blue. " * 60
    asked = Request(
        start + "And the sky is high. " * 60, "M + 0.5*x", {"x": "Be kind."}, Sampling(seed=1),
        Stop(3), speculation=None,
    )  # fmt: skip

    def usage(script: Sequence[Pause]) -> tuple[Any, dict[str, int]]:
        own = f"{next(_salts)}"
        pocket.submit(Request(start, stop=Stop(1), cache_salt=own)).result(60)
        wait_until_idle(pocket)
        with pausing(pocket, script):
            out = pocket.submit(replace(asked, cache_salt=own)).result(60)
        return out.usage, {name: term.cached_tokens for name, term in out.stats.terms.items()}

    never = usage([])
    assert never[1]["prompted()"] > 200
    for step in (1, 2, 4):
        assert usage([Pause(frozenset())] * step + [Pause(frozenset({0}))]) == never


def test_scores_of_a_paused_query_stay_the_same(checked: CheckedEngine) -> None:
    texts = [[2 + (i * i + k) % 20 for i in range(90)] for k in range(3)]

    def scores() -> list[list[float]]:
        ask = checked.engine.submit_scoring
        futures = [ask("a b c", text, "2*x - M", checked.terms) for text in texts]
        return [future.result(60).logprobs for future in futures]

    plain = scores()
    wait_until_idle(checked.engine)
    with pausing(checked.engine, ALWAYS):
        for one, other in zip(plain, scores(), strict=True):
            assert one == pytest.approx(other, abs=1e-4)


def test_a_text_in_bfloat16_is_as_long_after_pauses() -> None:
    model, tokenizer = endless_model(512)
    with Engine.load(model.bfloat16(), tokenizer=tokenizer) as engine:
        requests = [
            Request("a b c", "2*x - M", {"x": "q"}, Sampling(seed=i), Stop(20 + i))
            for i in range(3)
        ]
        for i, out in enumerate(paused(engine, requests, ALWAYS)):
            assert len(out.tokens) == 20 + i
            assert out.finish_reason == "length"


def test_a_pause_resizes_no_rectangle_and_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose_runner, "_hands_keys_on", lambda _: False)
    requests = [
        Request(f"{letter} b c", "2*x - M", {"x": "q"}, Sampling(seed=1), Stop(60), logprobs=0,
                speculation=None)
        for letter in "ade"
    ]  # fmt: skip

    def run(script: Sequence[Pause]) -> tuple[list[Completion], int, int]:
        model, tokenizer = endless_model(512)
        with Engine.load(model, tokenizer=tokenizer) as engine:
            runner = scorer_of(engine).runner
            resized: list[Any] = []
            plain = runner.lanes.cache.resize
            runner.lanes.cache.resize = lambda *sizes: (resized.append(sizes), plain(*sizes))
            with hold_passes(engine):
                tickets = [engine.submit(each) for each in requests]
            read = runner.passes.tokens_read
            with pausing(engine, script):
                out = [ticket.result(60) for ticket in tickets]
                wait_until_idle(engine)
            return out, len(resized), runner.passes.tokens_read - read

    kept = [Pause(frozenset({1, 2}), holds=i % 3 == 0) for i in range(30)]
    never, often = run([]), run(kept)
    require_equal(never[0], often[0])
    assert often[1:] == never[1:]


def test_requests_that_continue_one_cached_prefix_hold_it_as_often_as_it_is_counted() -> None:
    prompt = " ".join(Random(1).choices("abcdefgh", k=1000))
    with endless_engine(4000) as engine:
        engine.generate(prompt, max_tokens=100, speculation=None)
        with pausing(engine, []):
            with hold_passes(engine) as begun:
                tickets = [engine.submit(Request("q", stop=Stop(1), speculation=None))]
                assert begun.wait(20)
                # These requests begin in one step.
                tickets += [
                    engine.submit(Request(f"{prompt} {letter}", stop=Stop(9), speculation=None))
                    for letter in "klmnopqr"
                ]
            for ticket in tickets:
                assert ticket.result(60).finish_reason == "length"
