"""The README's first table shows what its first program prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
REPLY = re.compile(r"^\| `([^`]*)`[^|]* \| \*(.*?)\* \|", re.MULTILINE)


def test_the_first_program_prints_the_replies_of_the_table() -> None:
    text = README.read_text(encoding="utf-8")
    shown = REPLY.findall(text.split("```")[0])
    program = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert program
    assert len(shown) == 3
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program[1], {})
    assert printed.getvalue().splitlines() == [reply for _, reply in shown]
    assert all(f'"{formula}"' in program[1] for formula, _ in shown)
