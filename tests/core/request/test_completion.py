"""What comes back is printed as its text."""

from __future__ import annotations

from marith import Chunk, Completion, Stats, Usage
from marith.request.completion import Choice


def test_what_is_printed_is_the_text() -> None:
    stats = Stats(tokens=3, passes=3, calls=3, seconds=0.1)
    assert str(Completion("Hi\nyou", [5, 6, 7], "stop", Usage(2, 3), stats)) == "Hi\nyou"
    assert f"{Chunk('Hi', (4,))}" == "Hi"
    assert str(Choice.of({"no": -3.0, "yes": -1.0})) == "yes"
