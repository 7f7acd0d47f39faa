"""Twenty thousand draws of each case, held against what the formula and its sampling say."""

from __future__ import annotations

import pytest
from support.drafting import END, Small
from support.drawn_cases import ENDING, HELD, PLANNED
from support.pair_draws import FORMULAS, hold


@pytest.mark.parametrize("name", PLANNED)
def test_every_token_is_drawn_from_the_truth(small: Small, name: str) -> None:
    drawn, _ = PLANNED[name].hold(small)
    if name == ENDING:
        assert int((drawn.tokens == END).sum()) > PLANNED[name].texts / 2


@pytest.mark.parametrize("name", HELD)
def test_every_token_is_drawn_from_what_a_grammar_lets_follow(small: Small, name: str) -> None:
    HELD[name].hold(small)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_pairs_of_tokens_are_drawn_as_the_formula_says(
    small: Small, formula: str, temperature: float
) -> None:
    hold(small, formula, temperature, 3000)
