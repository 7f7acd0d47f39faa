"""What `marith demo --full` adds: a table of replies, and six formulas with their measures."""

from __future__ import annotations

import pytest

from marith.demo import all_answers, measured_replies
from marith.demo.all_answers import FORMULAS
from marith.demo.measured_replies import replies
from marith.demo.printed_lines import Printer
from marith.demo.shown_requests import options_for


def test_all_answers_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_answers, "MAX_TOKENS", 10)
    monkeypatch.setattr(all_answers, "FORMULAS", FORMULAS[:3])
    monkeypatch.setattr(measured_replies.messages, "__defaults__", (1,))
    options = options_for("pocket", 0)
    question = "What do you know about bees?"
    all_answers.print_all(Printer(), options, question, replies(options, 0))
    out = capsys.readouterr().out
    for words in ("Engine", "LangChain", "LlamaIndex", "formal", "toxic", "positive", question):
        assert words in out
    assert out.count("the same texts") == 2
    assert out.count("2*formal - M") == 1  # equal texts are not printed again
