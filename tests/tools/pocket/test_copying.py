"""What counts as copied."""

from __future__ import annotations

import random

import pytest

from tools.pocket import copying

CALL = '<tool_call>{"name": "f", "arguments": {"x": "é"}}</tool_call>'


@pytest.mark.parametrize("kind", copying.KINDS)
def test_equal_seeds_ask_the_same_and_an_empty_reply_is_never_right(kind: str) -> None:
    def asked() -> list[copying.Case]:
        drawn = (copying.KINDS[kind](draw) for draw in [random.Random(3)] * 60)
        return [each[1] for each in drawn if each]

    first, second = asked(), asked()
    assert [case.messages for case in first] == [case.messages for case in second]
    assert len(first) >= 5
    assert not any(case.right("") for case in first)


@pytest.mark.parametrize("kind", ["identifiers, codes", "other scripts", "places"])
def test_a_letter_more_or_less_is_no_copy(kind: str) -> None:
    draw = random.Random(4)
    for _ in range(30):
        drawn = copying.KINDS[kind](draw)
        assert drawn
        value, case = drawn[0].removeprefix("pair/"), drawn[1]
        assert value in str(case.messages[0]["content"])
        assert case.right(value)
        assert not case.right(value + "x")
        assert not case.right(value[:-1])


def test_calls_are_read_as_json_and_what_is_no_json_is_no_call() -> None:
    assert copying.calls(CALL * 2) == [{"name": "f", "arguments": {"x": "é"}}] * 2
    assert copying.calls(CALL.replace("}}", "}")) == []
    assert copying.calls("Hello!") == []
