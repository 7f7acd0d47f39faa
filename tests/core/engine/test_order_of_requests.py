"""First come, first served: whatever its salt, no request overtakes another."""

from __future__ import annotations

from typing import Any

import pytest
from support.held_passes import hold_passes, tiny_engine

from marith import Request, Sampling, Stop


@pytest.mark.parametrize("lanes", [1, 2])
def test_requests_begin_in_the_order_in_which_they_came(lanes: int) -> None:
    begun: list[int] = []

    def request(number: int) -> Request:
        def note(rows: Any, text: list[int], places: list[int]) -> Any:
            if not text:
                begun.append(number)
            return rows

        return Request(
            "a", "M", None, Sampling(seed=1), Stop(3), speculation=None,
            cache_salt="abc"[number % 3], constraints=[note],
        )  # fmt: skip

    with tiny_engine(max_lanes=lanes) as engine:
        with hold_passes(engine) as holding:
            tickets = [engine.submit(request(0))]
            holding.wait(20)
            tickets += [engine.submit(request(number)) for number in range(1, 13)]
        texts = {ticket.result(60).text for ticket in tickets}
    assert begun == [*range(13)]
    assert len(texts) == 1, "no text depends on who else asks"
