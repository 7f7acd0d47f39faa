"""The two methods of docs/examples/own_methods.py, held against the equations of their papers."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from support.strategies import speakers

from marith import parse
from marith.formula.text.calls import CALLS

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "own_methods.py"
A, B, *_ = speakers(4)
TERMS: dict[str, Any] = {"M": A, "b": B}


@pytest.fixture(autouse=True, scope="module")
def example() -> Iterator[None]:
    with patch.dict(CALLS):
        runpy.run_path(str(EXAMPLE), run_name="own_methods")
        yield


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("theta", "start"), [(0.1, 1.0), (0.5, 0.7)])
def test_edt_is_its_equation(paper: Any, seed: int, theta: float, start: float) -> None:
    world = paper.world(seed)
    p = world[A]
    terms = np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0)
    temperature = start * 0.8 ** (theta / -terms.sum(axis=-1, keepdims=True))
    formula = parse(f"edt(M, {theta}, {start})", TERMS)
    paper.agrees(formula, world, paper.power(p, 1 / temperature))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [0.5, 1, 2.5])
def test_top_n_sigma_is_its_equation(paper: Any, seed: int, n: float) -> None:
    world = paper.world(seed)
    p, q = world[A], world[B]
    logits = np.log(np.where(p > 0, p, np.nan))
    sigma = np.nanstd(logits, axis=-1, keepdims=True)
    kept = logits >= np.nanmax(logits, axis=-1, keepdims=True) - n * sigma
    paper.agrees(parse(f"top_n_sigma(M, {n})", TERMS), world, np.where(kept, p, 0.0))
    if seed % 2 == 0:  # every token is possible
        formula = parse(f"top_n_sigma(M, {n}) + 0.5*(b - M)", TERMS)
        paper.agrees(formula, world, np.where(kept, p * np.sqrt(q / p), 0.0))
