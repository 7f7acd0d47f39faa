"""The status of an engine: requests, lanes and checkpoints; and its `repr`."""

from __future__ import annotations

from pathlib import Path

from support.checked_engine import wait_until_idle
from support.held_passes import hold_passes, tiny_engine

import marith
from marith import Engine, Request, Stop
from marith.testing import tiny_model, tiny_tokenizer


def test_status_counts_running_and_waiting_requests_and_lanes() -> None:
    with tiny_engine(max_lanes=3) as engine:
        with hold_passes(engine) as begun:
            running = engine.submit(Request("a", "2*x - M", {"x": "q"}, stop=Stop(2)))
            begun.wait(20)
            waiting = [engine.submit(Request("a", "2*x - M", {"x": "q"})) for _ in range(2)]
            status = engine.status()
            assert (status.running, status.waiting, status.lanes) == (1, 2, 2)
            assert not status.idle
            running.cancel()
            assert engine.status().lanes == 0, "its lanes go after the step that runs"
            for ticket in waiting:
                ticket.cancel()
        wait_until_idle(engine)
        after = engine.status()
        assert (after.running, after.waiting, after.lanes) == (0, 0, 0)
        engine.generate("a", stop=Stop(2))
        assert engine.status().steps > after.steps


def test_a_checkpoint_that_a_term_names_is_listed_once_it_is_loaded(tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    tiny_model(seed=2).save_pretrained(other)
    tiny_tokenizer().save_pretrained(other)
    with Engine.load(tiny_model(), tokenizer=tiny_tokenizer()) as engine:
        [base] = engine.status().checkpoints
        engine.generate("a", "M + big", {"big": marith.Prompted(model=other)}, stop=Stop(1))
        assert engine.status().checkpoints == (base, other)
