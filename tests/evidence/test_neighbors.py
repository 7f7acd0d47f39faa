"""48 texts of 400 tokens have the same bits alone, among others, after cancels, and paused."""

from __future__ import annotations

import pytest
from support.neighbors import differences, requests

from marith import Engine


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("speculation", [None, "auto"])
def test_other_texts_change_no_bit_of_a_text(speculation: str | None) -> None:
    found = dict(differences(lambda: Engine.load("pocket"), requests(48, 400, speculation)))
    assert found == dict.fromkeys(found, 0)
