"""Twenty thousand tokens of each case, compared with the distribution of the formula."""

from __future__ import annotations

import pytest
from support.drawn_cases import ENDING, HELD, PLANNED
from support.pair_draws import FORMULAS, require_pairs
from support.small_engine import END, SmallEngine


@pytest.mark.parametrize("name", PLANNED)
def test_every_token_has_the_probability_of_the_formula(small: SmallEngine, name: str) -> None:
    drawn, _ = PLANNED[name].require_distribution(small)
    if name == ENDING:
        assert int((drawn.tokens == END).sum()) > PLANNED[name].texts / 2


@pytest.mark.parametrize("name", HELD)
def test_every_token_has_the_composed_probability_among_allowed_tokens(
    small: SmallEngine, name: str
) -> None:
    HELD[name].require_distribution(small)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_pairs_of_tokens_have_the_probability_of_the_formula(
    small: SmallEngine, formula: str, temperature: float
) -> None:
    require_pairs(small, formula, temperature, 3000)
