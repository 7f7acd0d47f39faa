"""A sample of the stress that `python tests/stress.py` puts on an engine in full."""

from __future__ import annotations

import logging
import os

import pytest
import stress


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
def test_scores_texts_and_children_at_once_are_right_and_leave_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.CRITICAL):  # callbacks that fail are logged, each with a traceback
        out = stress.run(scorings=160, threads=8, children=2, kinds=12)
    assert out.wrong == []
    assert (
        min(out.done[each] for each in ("texts", "scores", "asks", "cancel", "exits", "pauses")) > 0
    )
    assert out.done["children"] >= 1
