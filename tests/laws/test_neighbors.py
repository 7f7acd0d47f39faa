"""Law: a text of a seed has the same bits alone and next to others, on a CPU in float32.

The reported log-probabilities are compared as they are, not within a tolerance. `make evidence`
compares 48 texts of 400 tokens.
"""

from __future__ import annotations

import pytest
from support.neighbors import differences, requests

from marith import Engine


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_a_text_has_the_same_bits_alone_and_next_to_others(speculation: str | None) -> None:
    formulas = "M", "M - 0.2*rude", "union(M, kind) + 0.3*rude"
    asked = requests(6, 16, speculation, formulas)
    found = dict(differences(lambda: Engine.load("pocket"), asked, most=12))
    assert found == dict.fromkeys(found, 0)
