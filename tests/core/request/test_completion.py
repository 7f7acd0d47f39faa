"""What comes back says in one line what one would ask of it."""

from __future__ import annotations

from marith import Chunk, Completion, Stats, ToolCall, Usage
from marith.request.completion import Choice


def completed(text: str, seconds: float = 0.1234, calls: tuple[ToolCall, ...] = ()) -> Completion:
    stats = Stats(tokens=3, passes=3, calls=3, seconds=seconds)
    reason = "tool_calls" if calls else "stop"
    return Completion(text, [5, 6, 7], reason, Usage(2, 3), stats, calls=calls)


def test_a_completion_shows_its_text_its_end_and_its_cost() -> None:
    assert repr(completed("Hi\nyou")) == r"<Completion 'Hi\nyou': stop, 3 tokens, 0.123 s>"
    called = completed("", calls=(ToolCall("1", "clock", "{}"), ToolCall("2", "mail", "{}")))
    assert repr(called) == "<Completion '': calls clock, mail, tool_calls, 3 tokens, 0.123 s>"
    assert repr([completed("a")]) == "[<Completion 'a': stop, 3 tokens, 0.123 s>]"


def test_what_is_printed_is_the_text() -> None:
    assert str(completed("Hi\nyou")) == "Hi\nyou"
    assert f"{Chunk('Hi', (4,))}" == "Hi"
    assert str(Choice.of({"no": -3.0, "yes": -1.0})) == "yes"
