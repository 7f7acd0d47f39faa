"""A request with `inspect` gets the inspection that `marith.inspect` gives of its tokens."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from support.checked_engine import CheckedEngine, wait_until_idle
from support.held_passes import hold_passes

import marith
from marith import (
    Ban,
    Busy,
    DeadlineExceeded,
    Engine,
    Grammar,
    Inspection,
    Plan,
    Request,
    RequestError,
    Sampling,
    Stop,
    Ticket,
    Tools,
)
from marith.engine.jobs.queries import AT_ONCE
from marith.errors import UnknownOption
from marith.inspection.calls import Following
from marith.tensor_rows import Row
from marith.testing import tiny_model, tiny_tokenizer

FORMULA = "2*x - 0.5*M - 0.3*union(y, M)"
FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}
TOOL = {"type": "function", "function": FUNCTION}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without drafts": {"speculation": None},
    "a plan": {"speculation": Plan.factors({"x": 3})},
    "a grammar": {"grammar": Grammar.regex("[a-k]{4,9}")},
    "a ban": {"ban": Ban(("a", "e", "n", "t"), whole_words=False)},
    "stop strings": {"stop": Stop(20, ("b", "k"))},
    "a prefix": {"prefix": "k e"},
    "log-probabilities": {"logprobs": 2},
    "an even text": {"sampling": Sampling(temperature=0)},
}


def same(one: Inspection, other: Inspection) -> None:
    """The same but for rounding, which the length of a pass changes."""
    assert (one.terms, one.parts, one.text, one.top) == (
        other.terms, other.parts, other.text, other.top,
    )  # fmt: skip
    for first, second in zip(one.positions, other.positions, strict=True):
        assert (first.token, first.rank, first.flipped, first.reference.token) == (
            second.token, second.rank, second.flipped, second.reference.token,
        )  # fmt: skip
        assert first.logprob == pytest.approx(second.logprob, abs=1e-4)
        assert first.log_odds == pytest.approx(second.log_odds, abs=1e-3)


def test_generate_refuses_inspect_and_names_the_function_for_it(checked: CheckedEngine) -> None:
    with pytest.raises(
        RequestError, match=r"write marith\.submit_with_inspection\(engine, request\)"
    ):
        checked.engine.submit(Request("a", inspect=True))
    with pytest.raises(UnknownOption, match=r"takes no 'inspect'; .* marith\.inspect\(engine"):
        checked.engine.generate("a", inspect=True)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_inspected_text_is_the_same_text_with_its_inspection(
    checked: CheckedEngine, name: str
) -> None:
    given = {"sampling": Sampling(seed=5), "stop": Stop(12), **OPTIONS[name]}
    plain = checked.engine.submit(Request("a b", FORMULA, checked.terms, **given)).result()
    request = Request("a b", FORMULA, checked.terms, inspect=4, **given)
    completion = marith.submit_with_inspection(checked.engine, request).result()
    assert completion.tokens == plain.tokens
    assert (plain.inspection, completion.logprobs is None) == (None, plain.logprobs is None)
    prefix = checked.engine.encode(given.get("prefix", ""))
    expected = marith.inspect(
        checked.engine,
        "a b",
        [*prefix, *completion.tokens],
        FORMULA,
        checked.terms,
        top=4,
        start=len(prefix),
    )
    assert completion.inspection is not None
    same(completion.inspection, expected)


def test_tools_and_reasoning_are_inspected_by_their_tokens() -> None:
    with Engine.load("pocket") as engine:
        request = Request(
            "Call f.", "2*x - M", {"x": "Be brief."}, Sampling(seed=1), Stop(60),
            tools=Tools((TOOL,), "required"), inspect=True,
        )  # fmt: skip
        completion = marith.submit_with_inspection(engine, request).result()
        assert completion.calls
        assert completion.inspection is not None
        assert [p.token for p in completion.inspection.positions] == completion.tokens


def test_the_last_chunk_of_a_stream_has_the_inspection(checked: CheckedEngine) -> None:
    request = Request("a b", FORMULA, checked.terms, Sampling(seed=1), Stop(9), inspect=2)
    chunks = list(marith.submit_with_inspection(checked.engine, request))
    assert [chunk.inspection is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    (inspection,) = [chunk.inspection for chunk in chunks if chunk.inspection]
    assert [p.token for p in inspection.positions] == [t for c in chunks for t in c.tokens]

    async def streamed() -> list[bool]:
        ticket = marith.submit_with_inspection(checked.engine, request)
        return [chunk.inspection is None async for chunk in ticket]

    assert asyncio.run(streamed()) == [chunk.inspection is None for chunk in chunks]


def test_a_text_without_tokens_has_an_inspection_without_positions(checked: CheckedEngine) -> None:
    end = checked.engine.end_tokens[0]
    only_the_end = Sampling(temperature=0, logit_bias={end: 100.0})
    request = Request("a", sampling=only_the_end, inspect=True)
    completion = marith.submit_with_inspection(checked.engine, request).result()
    assert completion.tokens == []
    assert completion.inspection is not None
    assert completion.inspection.positions == ()


@pytest.mark.parametrize(("inspect", "listed"), [(True, 10), (3, 3)])
def test_an_inspection_lists_ten_likely_tokens_or_as_many_as_asked(
    checked: CheckedEngine, inspect: bool | int, listed: int
) -> None:
    request = Request("a", FORMULA, checked.terms, stop=Stop(2, ignore_eos=True), inspect=inspect)
    inspection = marith.submit_with_inspection(checked.engine, request).result().inspection
    assert inspection is not None
    assert [len(position.top) for position in inspection.positions] == [listed] * 2


def test_what_cannot_be_inspected_is_refused_before_a_token_is_drawn(
    checked: CheckedEngine,
) -> None:
    steps = checked.engine.status().steps
    with pytest.raises(RequestError, match="write a smaller top, or inspect a shorter text"):
        marith.submit_with_inspection(
            checked.engine, Request("a", FORMULA, checked.terms, stop=Stop(100), inspect=20_000)
        )
    with pytest.raises(
        RequestError, match=r"inspect must be True, False, or the number .* not 'yes'"
    ):
        Request("a", inspect="yes")  # type: ignore[arg-type]
    with Engine.load(tiny_model(), tokenizer=tiny_tokenizer(), max_lanes=1) as engine:
        engine.generate("a", "x", {"x": "b"}, max_tokens=1)
        with pytest.raises(RequestError, match="needs 2 lanes; max_lanes is 1"):
            marith.submit_with_inspection(
                engine, Request("a", "x", {"x": "b"}, stop=Stop(1), inspect=True)
            )
    assert checked.engine.status().steps == steps


def busy(engine: Engine) -> bool:
    """Whether one request more is one too many."""
    try:
        engine.submit(Request("a", "x", {"x": "b"}, stop=Stop(1))).cancel()
    except Busy:
        return True
    return False


def test_an_inspection_runs_although_the_queue_is_full() -> None:
    with Engine.load(tiny_model(), tokenizer=tiny_tokenizer(), max_lanes=2, max_queue=4) as engine:
        with hold_passes(engine):
            tickets = [
                marith.submit_with_inspection(
                    engine, Request("a", "x", {"x": "b"}, Sampling(seed=i), Stop(4), inspect=1)
                )
                for i in range(4)
            ]
            while not busy(engine):
                assert len(tickets) < 9
                tickets.append(engine.submit(Request("a", "x", {"x": "b"}, stop=Stop(4))))
        completions = [ticket.result(60) for ticket in tickets]
        assert all(c.inspection is not None for c in completions[:4])


def test_a_cancelled_inspection_frees_the_engine(checked: CheckedEngine) -> None:
    request = Request("a", FORMULA, checked.terms, stop=Stop(20), inspect=True)
    ticket = marith.submit_with_inspection(checked.engine, request)
    ticket.cancel()
    with pytest.raises(RequestError, match="cancelled"):
        ticket.result()
    marith.submit_with_inspection(checked.engine, replace(request, prompt="b"))
    gc.collect()
    wait_until_idle(checked.engine)


@contextmanager
def followed(request: Request) -> Iterator[tuple[Engine, Ticket, threading.Event, threading.Event]]:
    """The engine is held within the inspection of an ended text; the last event lets it go."""
    inspecting, go_on = threading.Event(), threading.Event()
    check = Following.check

    def slow(self: Following, rows: Sequence[Row]) -> None:
        inspecting.set()
        go_on.wait(20)
        check(self, rows)

    loaded = Engine.load(tiny_model(seed=1), tokenizer=tiny_tokenizer())
    with loaded as engine, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Following, "check", slow)
        ticket = marith.submit_with_inspection(engine, request)
        assert inspecting.wait(20)
        try:
            yield engine, ticket, inspecting, go_on
        finally:
            go_on.set()


SHORT = Request("a b", "2*x - M", {"x": "b c"}, Sampling(seed=5), Stop(5), inspect=2)
LONG = replace(SHORT, stop=Stop(2 * AT_ONCE - 20, ignore_eos=True))  # two steps


def test_an_inspection_that_is_cancelled_ends_nothing_else() -> None:
    with followed(LONG) as (engine, ticket, inspecting, go_on):
        assert not ticket.ended
        ticket.cancel()
        with pytest.raises(RequestError, match="cancelled"):
            ticket.result(5)
        inspecting.clear()
        go_on.set()
        wait_until_idle(engine)
        assert not inspecting.is_set(), "no second step is taken"
        assert engine.status().lanes == 0
        again = marith.submit_with_inspection(engine, SHORT).result(20)
        assert again.inspection is not None


def test_the_deadline_of_a_text_is_that_of_its_inspection() -> None:
    with followed(replace(SHORT, timeout=0.5)) as (engine, ticket, _, go_on):
        with pytest.raises(DeadlineExceeded):
            ticket.result(10)
        go_on.set()
        wait_until_idle(engine)
        assert marith.submit_with_inspection(engine, SHORT).result(20).inspection is not None
