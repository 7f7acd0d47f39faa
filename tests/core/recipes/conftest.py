"""Recipes held against the equations of their papers, which tests write out in float64."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.strategies import speakers

from marith.decoding.evaluate import evaluate
from marith.formula.meaning.checking import check
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term

Table = Any  # of numpy, in float64
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class World:
    """What terms say of the next token at three places, and what else is known of the text."""

    spoken: Mapping[Term, torch.Tensor]

    def __getitem__(self, term: Term) -> Table:
        """Probabilities [3, vocab]."""
        return self.spoken[term].double().exp().numpy()

    def beside(self, observed: Mapping[Term, Any]) -> World:
        """The same, and these numbers, [3, vocab] or [3, 1]."""
        told = {term: torch.tensor(np.asarray(value)).float() for term, value in observed.items()}
        return World({**self.spoken, **told})


class Paper:
    """Random distributions, and what a paper's equation makes of them, beside the recipe."""

    def world(self, seed: int, holes: bool | None = None, vocab: int | None = None) -> World:
        """Four speakers of 5 to 50 tokens; every second world has tokens that are impossible."""
        source = torch.Generator().manual_seed(seed)
        vocab = vocab or int(torch.randint(5, 51, (), generator=source))
        rows = {}
        for term in speakers(4):
            sharpness = 0.2 + 3 * torch.rand((), generator=source)
            raw = torch.randn(3, vocab, generator=source) * sharpness
            gone = torch.rand(3, vocab, generator=source) < 0.3
            gone[:, 0] = False  # one token that all can say
            if seed % 2 if holes is None else holes:
                raw = raw.masked_fill(gone, -torch.inf)
            rows[term] = torch.log_softmax(raw, dim=-1)
        return World(rows)

    def agrees(self, formula: Formula, world: World, masses: Table) -> None:
        """The formula is sound, and comes to these masses once they are normalised."""
        check(formula, {})
        told = evaluate(formula, world.spoken).double().exp().numpy()
        wanted = masses / masses.sum(axis=-1, keepdims=True)
        assert np.isfinite(wanted).all()
        assert (told[wanted == 0] < 1e-20).all()
        np.testing.assert_allclose(told, wanted, rtol=2e-3, atol=2e-6)

    def power(self, base: Table, exponent: Any) -> Table:
        """What can be said, to a power; nothing where nothing can."""
        possible = base > 0
        return np.where(possible, np.where(possible, base, 1.0) ** exponent, 0.0)


@pytest.fixture(scope="session")
def paper() -> Paper:
    return Paper()


@dataclass(frozen=True)
class Row:
    """What docs/reference/recipes.md says of a recipe, as texts of formulas."""

    call: str
    line: str
    neutral: tuple[str, ...]  # the call and what it is then, or nothing

    @property
    def name(self) -> str:
        return self.call.partition("(")[0]


def page_rows() -> list[Row]:
    """The rows of the page's table of recipes."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "recipes.md").read_text(
        encoding="utf-8"
    )
    table = page.split("| recipe |")[1].split("\n\n")[0]
    cells = [line.split(" | ") for line in table.splitlines()[2:]]
    return [
        Row(*CODE.findall(cell[0]), *CODE.findall(cell[3]), tuple(CODE.findall(cell[5])))
        for cell in cells
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a row runs for every recipe."""
    if "row" in metafunc.fixturenames:
        metafunc.parametrize("row", page_rows(), ids=lambda row: row.name)


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    return page_rows()
