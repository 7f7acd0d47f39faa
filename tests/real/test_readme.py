"""The answers at the top of README are those of the model that it names."""

from __future__ import annotations

import re
from pathlib import Path

from marith import Engine

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ANSWER = re.compile(r"^\| `([^`]+)` \| \*(.+)\* \|$", re.MULTILINE)


def test_each_answer_begins_as_readme_says(chat_engine: Engine) -> None:
    answers = ANSWER.findall(README)
    assert len(answers) == 4
    for formula, beginning in answers:
        said = chat_engine.generate(
            "Tell me about the moon.",
            formula,
            {"pirate": "You are a pirate."},
            temperature=0,
            max_tokens=32,
        )
        assert said.text.strip().startswith(beginning), formula
