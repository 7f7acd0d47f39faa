"""A text for which nothing is drafted is skipped: for longer where choosing takes a good part."""

from __future__ import annotations

from typing import Any, cast

import pytest

from marith.speculation.controller.backoff import LONG, SHARE, SHORT, Backoff
from marith.speculation.window import DraftWindow


class Text:
    """Stands for a window, of which a weak reference alone is kept."""


def rounds_until_due(backoff: Backoff, text: DraftWindow) -> int:
    """How many rounds a text is skipped for."""
    skipped = 0
    while not backoff.due(text):
        skipped += 1
    return skipped


def skips(backoff: Backoff, times: int) -> list[int]:
    """After how many rounds a text comes to its turn, for which nothing is ever drafted."""
    text, found = cast(Any, Text()), []
    for _ in range(times):
        found.append(rounds_until_due(backoff, text))
        backoff.note(text, drafted=False)
    return found


def test_a_text_of_a_large_model_is_never_skipped_for_long() -> None:
    backoff = Backoff()
    backoff.learn(50e-6, chosen=1, texts=1, round_seconds=0.03)
    assert skips(backoff, 6) == [0, 1, SHORT, SHORT, SHORT, SHORT]


@pytest.mark.parametrize(("texts", "round_seconds"), [(16, 0.005), (64, 0.03), (20, 0.02)])
def test_under_load_choosing_takes_its_share_and_no_more(texts: int, round_seconds: float) -> None:
    backoff, each = Backoff(), 50e-6
    backoff.learn(texts * each, texts, texts, round_seconds)
    longest = skips(backoff, 9)[-1]
    assert SHORT < longest <= LONG
    share = texts * each / (longest + 1) / round_seconds
    assert share <= SHARE + 1e-9
    assert share > 0.7 * SHARE  # and it is looked at no more seldom than that
