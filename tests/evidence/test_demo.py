"""The whole demonstration on pocket: its answers are about what was asked."""

from __future__ import annotations

import pytest

from marith.demo import run


def test_the_demonstration_answers_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    run("pocket", "Tell me something interesting about pandas.", seed=1)
    out = capsys.readouterr().out
    assert out.count("pandas") >= 4  # the question and three answers
