"""What is sampled is what the formula says: chi-square of the full loop on a small vocabulary."""

from __future__ import annotations

import pytest
from support.drafting import Small
from support.pair_draws import FORMULAS, hold


@pytest.mark.parametrize(("formula", "temperature"), [*zip(FORMULAS, (0.7, 1.5, 0.7), strict=True)])
def test_pairs_of_tokens_are_drawn_as_the_formula_says(
    small: Small, formula: str, temperature: float
) -> None:
    """A seed's text is the reference's (`test_engine`); here seeds are seen to be independent."""
    hold(small, formula, temperature, 1000)
