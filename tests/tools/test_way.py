"""The tools that count what a token crosses, and time what the engine costs, see what is there."""

from __future__ import annotations

import pytest

import marith
from marith.testing import tiny_model
from tools import host_time, way
from tools.calls import FORWARD, Call, CallTrace, Recorder


@pytest.fixture(scope="module")
def lines() -> dict[str, CallTrace]:
    return {line.name: line.trace for line in (*way.tokens(), way.chat())}


def named(lines: dict[str, CallTrace], beginning: str) -> CallTrace:
    return next(each for name, each in lines.items() if name.startswith(beginning))


def test_a_token_crosses_rooms_from_scheduler_to_answer(lines: dict[str, CallTrace]) -> None:
    plain = named(lines, "a plain token")
    assert {"engine", "scoring", "decoding"} <= set(plain.entries)
    assert 5 <= len(plain.files) <= plain.functions <= plain.calls < 1000
    assert plain.switches >= len(plain.entries) - 1


def test_every_plain_token_makes_the_same_calls(lines: dict[str, CallTrace]) -> None:
    after = [*lines][[*lines].index("a plain token") + 1]
    assert after.startswith("a token under auto"), "one round in ten is longer"


def test_a_draft_makes_more_calls(lines: dict[str, CallTrace]) -> None:
    plain, drafted = named(lines, "a plain token"), named(lines, "a round with drafted")
    assert drafted.calls > plain.calls
    assert len(drafted.files) > len(plain.files)


def test_a_chat_call_is_counted_in_its_own_thread(lines: dict[str, CallTrace]) -> None:
    chat = named(lines, "a chat call")
    assert chat.files[0].startswith("langchain_marith/")
    assert {"langchain_marith", "options", "engine"} <= set(chat.entries)
    assert not any("step" in file for file in chat.files)
    assert chat.calls <= 500
    assert len(chat.files) <= 36


def test_comprehensions_hashes_and_other_libraries_are_not_counted() -> None:
    with Recorder().this_thread() as call:
        formula = marith.parse("M + 0.5*a", {"a": "Be kind."})
        assert {formula: str(formula)}
    steps = CallTrace.of([call]).steps
    assert any(file.startswith("formula/") for file, _ in steps)
    functions = [function for _, function in steps]
    assert not any(name.endswith(("__hash__", "__eq__", ">")) for name in functions)
    assert not any(name.startswith("test_") for name in functions)


def test_what_the_model_calls_back_is_not_counted() -> None:
    model = tiny_model()
    with Recorder().this_thread() as call:
        model(input_ids=model.get_input_embeddings().weight.new_zeros(1, 2).long())
    assert call.passes == 1
    assert CallTrace.of([call]).calls == 0


def test_a_round_begins_where_the_loop_runs_the_model() -> None:
    def step(*above: str) -> Call:
        found = [Call("engine/step.py", name) for name in above]
        score = Call("scoring/score.py", "score", [Call("", FORWARD, passes=1)], passes=1)
        return Call("engine/step.py", "step", [*found, score], passes=1)

    sweep = Call("engine/end.py", "sweep")
    parts = [Call("engine/loop.py", "wait"), step(), sweep, step("a")]
    loop = Call("engine/loop.py", "loop", parts, passes=2)
    run = Call("engine/loop.py", "run", [loop], passes=2)
    recorder = Recorder()
    recorder.threads = [Call("", "thread"), Call("", "thread", [run], passes=2)]
    functions = [[name for _, name in each.steps] for each in recorder.rounds()]
    assert functions == [["step", "score", "sweep"], ["step", "a", "score"]]


def test_a_room_is_entered_where_another_one_was_before() -> None:
    files = "engine/a.py", "scoring/b/c.py", "engine/a.py", "engine/d.py", "options.py"
    crossed = CallTrace(tuple((file, "f") for file in files))
    assert crossed.entries == {"engine": 2, "scoring": 1, "options": 1}
    assert crossed.switches == 3
    assert crossed.files == ["engine/a.py", "scoring/b/c.py", "engine/d.py", "options.py"]
    assert (crossed.calls, crossed.functions) == (5, 4)


def test_no_calls_are_an_empty_trace() -> None:
    assert (CallTrace(()).switches, CallTrace(()).files) == (0, [])


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_the_engine_costs_time_where_the_model_costs_none(
    speculation: host_time.Speculation,
) -> None:
    with host_time.engine_of(vocab=64, requests=2) as engine:
        figure = host_time.host_time(engine, speculation, requests=2, rounds=3)
    assert 0 < figure.median < 1e6
    assert figure.least <= figure.median <= figure.most


def test_the_arithmetic_by_hand_is_timed() -> None:
    assert all(figure.median > 0 for figure in host_time.arithmetic_time(64, 2, rounds=3))
