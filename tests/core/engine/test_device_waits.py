"""How often a step waits for the device: as often for many texts and terms as for one."""

from __future__ import annotations

import pytest
from support.held_passes import hold_passes, tiny_engine
from support.step_tensors import Waits, watch_steps

from marith import Request, Sampling, Stop

FORMULA, TERMS = "M + 0.5*x + 0.3*y - 0.4*z", {"x": "a b", "y": "c d", "z": "e f"}
OF_A_STEP = 3  # whether the pass is of numbers, and any token allowed; the tokens with the rest


@pytest.mark.parametrize("texts", [1, 5])
def test_a_step_waits_as_often_for_many_plain_texts_as_for_one(
    monkeypatch: pytest.MonkeyPatch, texts: int
) -> None:
    steps: list[Waits] = []

    def waits() -> Waits:
        steps.append(Waits())
        return steps[-1]

    with tiny_engine() as engine:
        watch_steps(monkeypatch, waits)
        requests = [
            Request(f"a {'b ' * i}", FORMULA, TERMS, Sampling(seed=i), Stop(6), None)
            for i in range(texts)
        ]
        with hold_passes(engine):
            tickets = [engine.submit(request) for request in requests]
        assert all(ticket.result(60).tokens for ticket in tickets)
    assert {step.count for step in steps[2:]} == {OF_A_STEP}
