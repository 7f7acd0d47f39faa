"""Compose without the cuts of a formula where they leave no allowed token."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from torch import Tensor

from marith.decoding.evaluate import evaluate
from marith.formula.meaning.removal import without_cuts
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term


def lift_cuts(
    formula: Formula,
    composed: Tensor,
    allowed: Tensor,
    rows_at: Callable[[list[int]], Mapping[Term, Tensor]],
) -> tuple[Tensor, list[int], list[int]]:
    """Return composed rows, without the formula's cuts where they leave no `allowed` token.

    `composed` and `allowed` are [positions, vocab]. `rows_at` returns the rows of the formula's
    terms at some positions, as `evaluate` takes them. Two lists of positions are returned too:
    positions that are composed without cuts, and positions at which no allowed token is left even
    then.
    """
    stuck = _stuck(composed, allowed)
    uncut = without_cuts(formula) if stuck else formula
    if uncut == formula:
        return composed, [], stuck
    composed = composed.clone()
    composed[stuck] = evaluate(uncut, rows_at(stuck))
    return composed, stuck, _stuck(composed, allowed)


def _stuck(composed: Tensor, allowed: Tensor) -> list[int]:
    """Return the positions at which no allowed token has a probability."""
    possible = ((composed > -math.inf) & allowed).any(dim=-1)
    positions: list[int] = (~possible).nonzero().flatten().tolist()
    return positions
