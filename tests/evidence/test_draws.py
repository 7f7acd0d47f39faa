"""Twenty thousand tokens of each case, compared with the distribution of the formula."""

from __future__ import annotations

import pytest
from support.drafting import END, Small
from support.drawn_cases import ENDING, HELD, PLANNED
from support.pair_draws import FORMULAS, hold


@pytest.mark.parametrize("name", PLANNED)
def test_every_token_has_the_probability_of_the_formula(small: Small, name: str) -> None:
    drawn, _ = PLANNED[name].hold(small)
    if name == ENDING:
        assert int((drawn.tokens == END).sum()) > PLANNED[name].texts / 2


@pytest.mark.parametrize("name", HELD)
def test_every_token_has_the_composed_probability_among_allowed_tokens(
    small: Small, name: str
) -> None:
    HELD[name].hold(small)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_pairs_of_tokens_have_the_probability_of_the_formula(
    small: Small, formula: str, temperature: float
) -> None:
    hold(small, formula, temperature, 3000)
