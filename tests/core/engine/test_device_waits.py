"""A step waits for the device only once, for its tokens."""

from __future__ import annotations

from typing import Any

import pytest
from support.held_passes import hold_passes, tiny_engine
from support.step_tensors import Uploads, Waits, watch_steps

from marith import Request, Sampling, Stop
from tools.step_counts import free_engine

TERMS = {"x": "a b", "y": "c d", "z": "e f"}
FORMULAS = [
    "M + 0.5*x + 0.3*y - 0.4*z",
    "M - 0.5*union(x, M) + 0.2*y",
    "where(jsd(M, x) > 0.1, x.min_p(0.1), intersection(M, z).top_k(5))",
    "M + relu(x - y)",
]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("texts", [1, 5])
def test_a_step_waits_once_for_any_number_of_texts(
    monkeypatch: pytest.MonkeyPatch, texts: int, formula: str
) -> None:
    steps: list[Waits] = []

    def waits() -> Waits:
        steps.append(Waits())
        return steps[-1]

    with tiny_engine() as engine:
        watch_steps(monkeypatch, waits)
        requests = [
            Request(f"a {'b ' * i}", formula, TERMS, Sampling(seed=i), Stop(6), None)
            for i in range(texts)
        ]
        with hold_passes(engine):
            tickets = [engine.submit(request) for request in requests]
        assert all(ticket.result(60).tokens for ticket in tickets)
    assert {step.count for step in steps[2:]} == {1}


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_no_copy_to_the_device_waits_for_a_pass(
    monkeypatch: pytest.MonkeyPatch, speculation: Any
) -> None:
    steps: list[Uploads] = []

    def uploads() -> Uploads:
        steps.append(Uploads())
        return steps[-1]

    with free_engine(requests=3, terms=2) as engine:
        watch_steps(monkeypatch, uploads)
        with hold_passes(engine):
            tickets = [
                engine.submit(
                    Request(f"word{i}", "M + 0.5*x", {"x": "word9"}, Sampling(seed=i), Stop(20),
                            speculation)
                )
                for i in range(3)
            ]  # fmt: skip
        assert all(len(ticket.result(60).tokens) == 20 for ticket in tickets)
    # The first steps read prompts, and prepare the shapes of steps.
    assert [step.count for step in steps[-6:-1]] == [0] * 5
