"""Recipes in plain sight: their calls are formulas, and what is said of them is what is written."""

from __future__ import annotations

import inspect

from marith import described_recipes, explain, parse
from marith.recipes import RECIPES


def test_every_recipe_is_described() -> None:
    described = described_recipes()
    assert [one.name for one in described] == [*RECIPES]
    for one in described:
        written = inspect.getdoc(RECIPES[one.name]) or ""
        assert one.summary
        assert f"{one.summary} {one.source}".split() == written.split()


def test_every_call_is_formula_text() -> None:
    for one in described_recipes():
        assert one.call.startswith(f"{one.name}(")
        if one.name not in ("fudge", "reward_guided"):  # which are over a classifier
            assert explain(parse(one.call))
