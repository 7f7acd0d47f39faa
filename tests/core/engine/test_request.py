"""Bad input: one clear error each, before anything is lost, and the engine goes on serving."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from typing import Any

import numpy as np
import pytest
import torch
from support.checked_engine import CheckedEngine, wait_until_idle
from support.held_passes import hold_passes

import marith
from marith import Engine, Plan, Request, Sampling, Stop
from marith.request.limits import Limits
from marith.testing import tiny_model, tiny_tokenizer

CIRCLE = {"p": marith.parse("q + M"), "q": marith.parse("p + M")}
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"formula": "M - fromal"}, marith.FormulaError, "unknown term 'fromal'"),
    ({"formula": "x - 2*M"}, marith.FormulaError, "more than zero"),
    ({"formula": 3}, marith.FormulaError, "not 3"),
    ({"formula": 'M + ngram("/no/where.txt")'}, marith.ModelError, "/no/where.txt"),
    ({"prompt": "a " * 500}, marith.ContextOverflow, "500 tokens"),
    ({"prompt": "a \ud800"}, marith.RequestError, "not Unicode"),
    ({"prompt": [{"role": "user", "content": 5}]}, marith.RequestError, "not 5"),
    ({"formula": "p", "terms": CIRCLE}, marith.FormulaError, "p → q → p"),
    ({"speculation": "yes"}, marith.RequestError, "'yes'"),
    ({"sampling": {"seed": 1}}, marith.RequestError, "Sampling"),
]


@pytest.mark.parametrize(("fault", "kind", "words"), BAD, ids=[str(b[0])[:40] for b in BAD])
def test_bad_input_is_one_clear_error_and_the_engine_goes_on_serving(
    checked: CheckedEngine, fault: dict[str, Any], kind: type[Exception], words: str
) -> None:
    given = {"prompt": "a b", "formula": "M + x", "terms": checked.terms, **fault}
    with pytest.raises(kind) as caught:
        checked.engine.submit(Request(**given))
    assert words in str(caught.value)
    assert checked.engine.generate("a b", stop=Stop(3), sampling=Sampling(seed=1)).tokens


@pytest.mark.parametrize(
    "given", [[True], [5.0], [np.float64(5)], [-1], [28], ["a"], [torch.ones(1)], 5, None]
)
def test_invalid_token_ids_are_refused(checked: CheckedEngine, given: Any) -> None:
    for ask in (checked.engine.submit_scoring, checked.engine.score):
        with pytest.raises(marith.RequestError, match=r"from 0 to|list of tokens"):
            ask("a b", given)
    with pytest.raises(marith.RequestError):
        checked.engine.next_logprobs("a b", continuation=given)


def test_scalars_of_numpy_and_torch_are_taken_for_numbers(checked: CheckedEngine) -> None:
    want = checked.engine.score("a b", [5, 6])
    for given in (np.array([5, 6]), torch.tensor([5, 6]), [np.int32(5), torch.tensor(6)]):
        assert checked.engine.score("a b", given, timeout=np.float32(9)) == want
    whole, seconds = np.int64(2), torch.tensor(9.0)
    request = Request("a", stop=Stop(whole), timeout=seconds, logprobs=np.uint8(1))
    assert request == Request("a", stop=Stop(2), timeout=9.0, logprobs=1)
    assert len(checked.engine.submit(request).result(60).tokens) <= 2
    plans = Plan.factors({"M": whole}), Plan.drafts("M", length=whole)
    assert plans == (Plan.factors({"M": 2}), Plan.drafts("M", length=2))
    assert all(Plan.from_json(plan.to_json()) == plan for plan in plans)
    assert Limits(max_lanes=whole) == Limits(max_lanes=2)
    sampling = Sampling(np.float32(0.5), torch.tensor(3), torch.tensor([0.25, 0.5])[1], np.int64(7))
    assert sampling == Sampling(0.5, 3, 0.5, 7)
    assert [type(one) for one in (sampling.temperature, sampling.top_k, sampling.top_p)] == [
        float, int, float,
    ]  # fmt: skip


def test_more_lanes_than_the_engine_has_are_refused_at_once() -> None:
    with Engine.load(tiny_model(), tokenizer=tiny_tokenizer(), max_lanes=2) as engine:
        with pytest.raises(marith.RequestError, match="3 lanes"):
            engine.generate("a", "M + x + y", {"x": "b", "y": "c"})
        assert engine.generate("a", "M + x", {"x": "b"}, stop=Stop(2)).stats.calls


def test_options_that_do_not_apply_are_refused() -> None:
    with pytest.raises(marith.ModelError, match="its own dtype"):
        Engine.load(tiny_model(), tokenizer=tiny_tokenizer(), dtype="float16")
    with pytest.raises(marith.ModelError, match="its own tokenizer"):
        Engine.load("pocket", tokenizer=tiny_tokenizer())


def test_a_prompt_longer_than_the_context_is_served_if_its_terms_read_less(
    checked: CheckedEngine,
) -> None:
    """The bare model's reading is longer than the context; the only term hides most of it."""
    short = {"lean": marith.Prompted(hide="q( q)*")}
    out = checked.engine.generate("a b " + "q " * 300, "lean", short, stop=Stop(3))
    assert out.usage.prompt_tokens == 302
    assert out.tokens or out.finish_reason == "stop"


def test_a_name_in_the_guide_of_an_inline_classifier_is_known(checked: CheckedEngine) -> None:
    text = checked.terms["C"]["formula"].removesuffix(")") + ", guide=x + max_prob(y)*(y - x))"
    named, inline = {**checked.terms, "J": {"formula": text}}, f"M + 2*{text}"
    how: dict[str, Any] = {"stop": Stop(6), "sampling": Sampling(seed=3)}
    for speculation in ("auto", None, marith.Plan()):
        expected = checked.engine.generate("a b", "M + 2*J", named, speculation=speculation, **how)
        out = checked.engine.generate("a b", inline, checked.terms, speculation=speculation, **how)
        assert out.tokens == expected.tokens
    assert len(checked.engine.score("a b", [5, 6], inline, checked.terms)) == 2
    assert checked.engine.next_logprobs("a b", inline, checked.terms).shape == (28,)
    with pytest.raises(marith.FormulaError, match="unknown term 'z'; known are A, C, M, big"):
        checked.engine.generate("a b", inline.replace("x +", "z +"), checked.terms)


def test_terms_that_a_formula_does_not_use_cost_its_request_nothing(checked: CheckedEngine) -> None:
    unused = {f"n{i}": f"M - 0.5*n{i - 1}" if i % 10 else "x" for i in range(1_000)}
    start = time.thread_time()
    for _ in range(5):
        checked.engine.submit(Request("a", "2*x - M", {**unused, **checked.terms}, stop=Stop(1)))
    assert time.thread_time() - start < 0.5


def test_a_stream_keeps_its_engine_alive() -> None:
    stream = Engine.load(tiny_model(seed=1), tokenizer=tiny_tokenizer()).stream(
        "a", sampling=Sampling(seed=1), stop=Stop(5)
    )
    assert [chunk.finish_reason for chunk in stream][-1] in ("stop", "length")


def test_a_result_that_takes_too_long_is_cancelled() -> None:
    """No pass ends before the reader has lost its patience, however fast or slow the machine."""
    with Engine.load(tiny_model(seed=1), tokenizer=tiny_tokenizer()) as engine:
        with hold_passes(engine):
            ticket = engine.submit(Request("a", stop=Stop(100)))
            with pytest.raises(TimeoutError):
                ticket.result(timeout=0.01)
            assert ticket.cancelled
        wait_until_idle(engine)


async def test_awaiting_in_a_loop_that_ends_does_no_harm(checked: CheckedEngine) -> None:
    def abandon() -> None:
        async def start() -> None:
            ticket = checked.engine.submit(Request("a", stop=Stop(100)))
            waiting = asyncio.ensure_future(ticket._finished())
            await asyncio.sleep(0)
            waiting.cancel()

        asyncio.run(start())

    with concurrent.futures.ThreadPoolExecutor() as pool:
        await asyncio.get_running_loop().run_in_executor(pool, abandon)
    later = await checked.engine.agenerate("a", sampling=Sampling(seed=1), stop=Stop(3))
    assert later.tokens
