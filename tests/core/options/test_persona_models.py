"""A persona of a file over another model than the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from marith.options.options import Options

FILE = """
[model]
model = "pocket-draft"
backend = "transformers"
[terms]
rude = "You are rude."
[formulas]
mild = { formula = "M - 0.5*rude", model = "pocket-draft" }
"""


@pytest.fixture
def personas(tmp_path: Path) -> str:
    path = tmp_path / "marith.toml"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def test_a_model_that_is_given_is_that_of_the_persona(personas: str) -> None:
    options = Options.from_file(personas, "mild", model="pocket")
    assert (options.model, options.formula) == ("pocket", "M - 0.5*rude")
    assert options.backend is None
    assert Options.from_file(personas, "mild").model == "pocket-draft"
