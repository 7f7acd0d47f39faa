"""What is sampled is what the formula says: chi-square of the full loop on a small vocabulary."""

from __future__ import annotations

from support.drafting import Small
from support.pair_draws import FORMULAS, hold


def test_pairs_of_tokens_are_drawn_as_the_formula_says(small: Small) -> None:
    """A seed's text is the reference's (`test_engine`); here seeds are seen to be independent.

    `tests/evidence` draws more, of all formulas and at two temperatures.
    """
    hold(small, FORMULAS[1], 1.5, 1000)
