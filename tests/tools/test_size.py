"""Are imports and docstrings left out of a file's size, and rooms told apart?"""

from __future__ import annotations

from pathlib import Path

from tools.size import room, statements

SOURCE = '''"""A page."""

import math


def half(number):
    """Halve a number."""
    if number:
        return number / 2
    return math.nan
'''


def test_imports_and_docstrings_are_not_counted() -> None:
    assert statements(SOURCE) == 4  # def, if, return, return


def test_each_file_has_its_room() -> None:
    assert room(Path("core/marith/scoring/passes.py")) == ("engine", "scoring")
    assert room(Path("core/marith/serving/server.py")) == ("applications", "serving")
    assert room(Path("tests/laws/test_enumeration.py")) == ("tests", "laws")
    assert room(Path("README.md")) is None
