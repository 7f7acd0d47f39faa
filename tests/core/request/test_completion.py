"""What comes back says in one line what one would ask of it."""

from __future__ import annotations

import pytest

from marith import Chunk, Completion, Stats, ToolCall, Usage
from marith.request.completion import CallChunk, Choice


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


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0 s"), (0.00123, "0.00123 s"), (12.34, "12.3 s"), (4321.0, "4321 s")],
)
def test_seconds_are_written_as_a_time(seconds: float, shown: str) -> None:
    assert repr(completed("a", seconds)).endswith(f" {shown}>")


def test_a_long_text_is_shortened_and_says_how_long_it_is() -> None:
    shown = repr(completed("word," * 5000))
    assert "word,'… (25000 letters): stop" in shown
    assert len(shown) < 130
    assert "…" not in repr(completed("w" * 60))


def test_a_chunk_shows_what_is_in_it() -> None:
    assert repr(Chunk("Hi", (4,))) == "<Chunk 'Hi': 1 token>"
    assert repr(Chunk(".", (4, 5), "length")) == "<Chunk '.': 2 tokens, length>"
    pieces = (CallChunk(0, "id", "clock", ""), CallChunk(0, None, None, '{"a"'))
    shown = repr(Chunk("", (), None, "So", pieces))
    assert shown == """<Chunk '': reasoning 'So', call clock '', call 0 '{"a"', 0 tokens>"""


def test_a_choice_shows_the_most_probable_texts_first() -> None:
    assert repr(Choice.of({"no": -3.0, "yes": -1.0})) == "<Choice 'yes' 0.881, 'no' 0.119>"
    many = Choice.of({f"option {i}": -float(i) for i in range(40)})
    assert repr(many).startswith("<Choice 'option 0' 0.632, 'option 1' 0.233,")
    assert repr(many).endswith(", 35 more>")
