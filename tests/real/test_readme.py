"""The answers at the top of README are those of the model that it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marith import Engine
from tools.real_models import QWEN, RealModel

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
# A system prompt and a question, the answer by the prompt alone, and the answer by the formula.
ROW = re.compile(r"^\| (\S.*\.) (.+\?) \| \*(.+)\* \| \*(.+)\* \|$", re.MULTILINE)
FORMULA = "M + 1.5*(prompt - M)"


@pytest.fixture(scope="module")
def large(fetch: Callable[[RealModel], Path]) -> Iterator[Engine]:
    with Engine.load(str(fetch(QWEN)), dtype="bfloat16") as engine:
        yield engine


def test_each_answer_begins_as_readme_says(large: Engine) -> None:
    rows = ROW.findall(README)
    assert len(rows) == 2
    assert f"`{FORMULA}`" in README
    for system, question, *beginnings in rows:
        for formula, beginning in zip(("prompt", FORMULA), beginnings, strict=True):
            said = large.generate(
                question, formula, {"prompt": system}, temperature=0, max_tokens=32
            )
            assert said.text.startswith(beginning), formula
