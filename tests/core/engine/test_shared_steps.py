"""Requests that share steps, though their formulas need other terms, rows or threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from marith import Completion, Engine, Plan, Prompted, Request, Sampling, Stop, Tools
from marith.speculation.window import DraftWindow
from marith.testing import passes_of

FORMAL = {"formal": "You are formal."}


def tool(*words: str) -> dict[str, Any]:
    """A function with one argument, which is one of some words."""
    schema = {"properties": {"v": {"enum": list(words)}}, "required": ["v"]}
    return {"type": "function", "function": {"name": "p", "parameters": schema}}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.fixture(autouse=True)
def no_step_is_repeated(engine: Engine) -> Iterator[None]:
    before = engine.status().repeated
    yield
    assert engine.status().repeated == before


def answers(engine: Engine, *requests: Request) -> list[Completion]:
    return [ticket.result(60) for ticket in [engine.submit(request) for request in requests]]


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_one_formula_is_steered_in_one_request_and_not_in_another(
    engine: Engine, speculation: Any
) -> None:
    requests = [
        Request(
            "Hello!", "formal", FORMAL,
            tools=Tools((tool("a", "b"),), choice, steer=steer), speculation=speculation,
            stop=Stop(12), sampling=Sampling(seed=seed), logprobs=1,
        )
        for seed, (steer, choice) in enumerate([(True, "auto"), (False, "auto"), (False, "p")])
    ]  # fmt: skip
    alone = [answers(engine, request)[0] for request in requests]
    together = answers(engine, *requests)
    assert [answer.tokens for answer in together] == [answer.tokens for answer in alone]


def test_the_bare_model_may_guide_a_classifier_and_fill_calls(engine: Engine) -> None:
    guided = "formal + 0.5*classifier('pocket-toxicity', guide=M)"
    tools = Tools((tool("a", "b"),), "p", steer=False)
    (called,) = answers(engine, Request("Hello!", guided, FORMAL, tools=tools, stop=Stop(40)))
    assert called.calls[0].arguments in ('{"v": "a"}', '{"v": "b"}')


def test_changing_a_definition_later_does_not_change_the_tools(engine: Engine) -> None:
    definition = tool("alpha", "beta")
    tools = Tools((definition,), "p")
    definition["function"]["parameters"]["properties"]["v"]["enum"][:] = ["gamma"]
    (called,) = answers(engine, Request("Hello!", tools=tools, stop=Stop(40)))
    assert called.calls[0].arguments in ('{"v": "alpha"}', '{"v": "beta"}')


def test_no_model_runs_on_a_callers_thread() -> None:
    threads: set[str] = set()
    with Engine.load("pocket") as fresh:
        passes: Any = passes_of(fresh)
        for model in (passes.model, passes.reader):
            model.register_forward_hook(lambda *_: threads.add(threading.current_thread().name))
        early = {"early": Prompted(exit_layer=1)}
        fresh.generate("Hello!", "M - 0.1*early", early, stop=Stop(2))
    assert threads == {"marith-load", "marith-engine"}


def test_a_text_that_waits_for_a_term_keeps_little_of_what_others_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    accept = DraftWindow.accept

    def accepted(window: DraftWindow, *args: Any) -> list[int]:
        final = accept(window, *args)
        rows = [row for terms in window._rows.values() for row in terms.values()]
        held = {tensor.untyped_storage().data_ptr(): tensor for tensor, _ in rows}
        if rows:
            size = sum(tensor.untyped_storage().nbytes() for tensor in held.values())
            shares.append(size / sum(tensor[at].nbytes for tensor, at in rows))
        return final

    monkeypatch.setattr(DraftWindow, "accept", accepted)
    plain = [Request(f"Story {i}", speculation=None, stop=Stop(20)) for i in range(8)]
    every = Plan(every=(("formal", 12),))
    answers(engine, Request("Hi!", "M + 0.3*formal", FORMAL, speculation=every), *plain)
    assert shares
    assert max(shares) <= 2
