"""Numbers of bytes are written in the unit that suits them."""

from __future__ import annotations

import pytest

from marith.scoring.checkpoints.amounts import amount


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (2_600_000, "2.6 MB"),
        (3e14, "300 TB"),
    ],
)
def test_an_amount_has_the_unit_that_suits_it(size: int | None, text: str) -> None:
    assert amount(size) == text
