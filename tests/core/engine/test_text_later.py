"""On a device, tokens become text while the next pass is computed. No answer changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.golden_cases import cases
from support.held_passes import becomes_true, endless_engine, hold_passes, model_of

import marith
from marith import Engine, Request, Sampling, Stop
from marith.answers.output import Output
from marith.engine import loop as loop_module
from marith.engine import step
from marith.engine.jobs.generation import Generation
from marith.engine.threads.deadline import Deadline

REQUESTS = [case.request for case in cases() if case.request.speculation is None]


@pytest.fixture(scope="module")
def here() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def there() -> Iterator[Engine]:
    """An engine that takes a step as on a device."""
    with Engine.load("pocket") as engine:
        engine._loop._text_later = True
        yield engine


def answers(engine: Engine, requests: list[Request]) -> list[Any]:
    """Return what callers see of the completions, and of the chunks of their streams."""
    with hold_passes(engine):
        tickets = [engine.submit(request) for request in requests]
    chunks = [[*ticket] for ticket in tickets]
    ends = [ticket.result() for ticket in tickets]
    found = []
    for one, own in zip(ends, chunks, strict=True):
        calls = [(call.name, call.arguments) for call in one.calls]
        seen = one.text, one.tokens, one.reasoning, calls, one.finish_reason
        counts = one.usage.total_tokens, one.stats.implausible, one.stop_string
        found.append((*seen, *counts, [replace(chunk, calls=()) for chunk in own]))
    return found


def test_no_answer_changes(here: Engine, there: Engine) -> None:
    requests = [*REQUESTS, *(replace(one, stop=Stop(60, ("e ", "."))) for one in REQUESTS[:12])]
    found = answers(there, requests)
    assert found == answers(here, requests)
    assert {end[4] for end in found} >= {"stop", "length"}


def test_a_text_that_its_own_text_ends_draws_one_token_in_vain(here: Engine, there: Engine) -> None:
    asked = Request("Tell me of bees.", "M", {}, Sampling(seed=3), Stop(40, ("e",)), None)
    first, later = (engine.submit(asked).result(30) for engine in (here, there))
    assert (first.text, first.tokens, first.finish_reason) == (
        later.text, later.tokens, later.finish_reason,
    )  # fmt: skip
    assert first.stop_string == later.stop_string == "e"
    assert first.usage.total_tokens == later.usage.total_tokens
    assert later.stats.passes == first.stats.passes + 1


def test_the_last_token_is_not_left_to_another_step(there: Engine) -> None:
    asked = Request("Tell me of bees.", sampling=Sampling(seed=3), stop=Stop(1), speculation=None)
    assert there.submit(asked).result(30).stats.passes == 1


def test_text_is_made_between_a_pass_and_the_wait_for_its_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    take, to_lists = Output.take, step.to_lists
    monkeypatch.setattr(Output, "take", lambda *given: (said.append("text"), take(*given))[1])
    monkeypatch.setattr(step, "to_lists", lambda given: (said.append("wait"), to_lists(given))[1])
    with endless_engine() as engine:
        engine._loop._text_later = True
        model_of(engine).register_forward_pre_hook(lambda *_: said.append("pass"))
        with hold_passes(engine):
            tickets = [
                engine.submit(
                    Request(text, sampling=Sampling(seed=1), stop=Stop(9), speculation=None)
                )
                for text in ("a", "b c")
            ]
        for ticket in tickets:
            ticket.result(30)
    steps = "".join(word[0] for word in said).split("p")[3:-1]
    assert len(steps) >= 4
    # The text that began first may also end first, after the wait.
    assert {each[:3] for each in steps} == {"ttw"}


def unended(engine: Engine, **options: Any) -> tuple[Any, str]:
    """Return a ticket whose text ends by its fifth token, and the text."""
    asked = Request("Tell me of bees.", "M", {}, Sampling(seed=5), Stop(5), None)
    text = engine.submit(asked).result(30).text
    stop = text[-2:]
    ended = engine.submit(replace(asked, stop=Stop(400, (stop,)), **options))
    return ended, text[: text.index(stop)]


@pytest.mark.parametrize("way", ["pause", "late", "close"])
def test_a_text_that_is_complete_does_not_wait_for_another_step(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.load("pocket") as engine:
        loop = engine._loop
        loop._text_later = True
        held = threading.Event()

        def after(*given: Any, **options: Any) -> None:
            plain(*given, **options)
            job = given[0][0].job
            if isinstance(job, Generation) and job._unconverted is not None:
                text = job._output._detokenizer.written
                if job.window.final == 5 and text and not held.is_set():
                    held.set()
                    end(job, given[0])

        def end(job: Generation, turns: Any) -> None:
            if way == "pause":
                loop.admission.pause(turns)
            elif way == "late":
                job.prepared = replace(job.prepared, deadline=Deadline.of(1e-9))
            else:
                threading.Thread(target=engine.close).start()
                assert becomes_true(lambda: bool(loop.closed))

        plain = loop_module.step
        monkeypatch.setattr(loop_module, "step", after)
        ticket, text = unended(engine)
        completed = ticket.result(30)
        assert (completed.text, completed.stats.passes) == (text, 5)
        assert held.is_set()
        if way != "close":
            assert engine.status().repeated == 0


def test_an_error_of_one_text_harms_no_other(
    there: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        Request("Tell me of bees.", sampling=Sampling(seed=i), stop=Stop(9), speculation=None)
        for i in range(3)
    ]
    wanted = [there.submit(one).result(30).text for one in asked]
    take = Output.take

    def fail(self: Output, token: int, *given: Any) -> Any:
        if self.count == 4 and self._max_tokens == 8:
            raise MemoryError("full")
        return take(self, token, *given)

    monkeypatch.setattr(Output, "take", fail)
    with hold_passes(there):
        good = [there.submit(one) for one in asked]
        bad = there.submit(replace(asked[0], stop=Stop(8)))
    with pytest.raises(marith.MarithError, match="MemoryError"):
        bad.result(30)
    assert [ticket.result(30).text for ticket in good] == wanted
