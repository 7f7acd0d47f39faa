"""Answers of tools belong to their calls, with ids and without."""

from __future__ import annotations

from typing import Any

from marith.openai_format import to_tool_call
from marith.request.prompt import to_prompt


def assistant(*calls: tuple[str | None, str]) -> dict[str, Any]:
    made = [to_tool_call(id_, name, {}) for id_, name in calls]
    return {"role": "assistant", "content": None, "tool_calls": made}


def answer(text: str, id_: str | None = None, **more: Any) -> dict[str, Any]:
    given = {"role": "tool", "content": text, "tool_call_id": id_, **more}
    return {key: value for key, value in given.items() if value is not None}


def paired(*messages: Any) -> list[str]:
    """The content of each answer with the name that it got, by the order of the calls."""
    read = to_prompt([{"role": "user", "content": "q"}, *messages]).messages
    ids = [call.get("id") for message in read for call in message.get("tool_calls", ())]
    ids = [id_ for id_ in ids if id_]
    assert len({*ids}) == len(ids)
    told = {
        m["tool_call_id"]: f"{m['content']} of {m['name']}" for m in read if m["role"] == "tool"
    }
    return [told[id_] for id_ in ids if id_ in told]


def test_answers_without_ids_are_paired_by_order() -> None:
    two = assistant((None, "f"), (None, "g"))
    assert paired(two, answer("a"), answer("b")) == ["a of f", "b of g"]
    assert paired(assistant(("c1", "f"), ("c2", "g")), answer("a"), answer("b", "")) == [
        "a of f",
        "b of g",
    ]
    assert paired(assistant(("", "f"), ("", "g")), answer("a", ""), answer("b", "")) == [
        "a of f",
        "b of g",
    ]


def test_a_name_decides_before_the_order() -> None:
    two = assistant((None, "f"), (None, "g"))
    assert paired(two, answer("b", name="g"), answer("a", name="f")) == ["a of f", "b of g"]


def test_an_id_decides_before_name_and_order() -> None:
    two = assistant(("c1", "f"), ("c2", "f"))
    assert paired(two, answer("b", "c2"), answer("a", "c1")) == ["a of f", "b of f"]
    assert paired(two, answer("b", "c2"), answer("a")) == ["a of f", "b of f"]


def test_an_id_that_only_the_answer_has_is_of_a_call_without_one() -> None:
    talk = [{"role": "user", "content": "q"}, assistant((None, "f")), answer("a", "x")]
    assert to_prompt(talk).messages[-1]["name"] == "f"


def test_a_call_without_an_id_gets_its_answers() -> None:
    talk = [{"role": "user", "content": "q"}, assistant((None, "f"), ("", "g"))]
    read = to_prompt([*talk, answer("b", "y", name="g"), answer("a", "x")]).messages
    assert [call["id"] for call in read[1]["tool_calls"]] == ["x", "y"]
    assert paired(*talk[1:], answer("b", "y", name="g"), answer("a", "x")) == ["a of f", "b of g"]


def test_a_generated_id_equals_no_other_id() -> None:
    for taken in ("call00001", "call00002"):
        assert paired(
            assistant((taken, "f"), (None, "g"), (None, "h")),
            answer("b", name="g"), answer("c", name="h"), answer("a", taken),
        ) == ["a of f", "b of g", "c of h"]  # fmt: skip
    later = assistant(("call00001", "g"))
    assert paired(assistant((None, "f")), answer("a"), later, answer("b", "call00001")) == [
        "a of f",
        "b of g",
    ]


def test_an_unanswered_call_gets_no_later_answer() -> None:
    again = {"role": "user", "content": "again"}
    assert paired(assistant((None, "f")), again, assistant((None, "g")), answer("a")) == ["a of g"]


def test_an_answer_to_nothing_stays_as_it_is() -> None:
    read = to_prompt([{"role": "user", "content": "q"}, answer("a"), answer("b", "c9")]).messages
    assert [message.get("tool_call_id") for message in read[1:]] == [None, "c9"]
