"""Random numbers are Philox's: uniform, independent, and functions of seed, position and use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from marith.decoding import random_numbers
from marith.decoding.random_numbers import DRAW, KEEP, Draws, philox, uniform

MANY = 100_000
WORD = 2**32 - 1
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
KNOWN = [  # philox4x32-10 of Random123's kat_vectors: counter and key, and what follows
    ((0,) * 6, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((WORD,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
seeds = st.integers(-(2**63), 2**63 - 1)
counters = st.integers(0, 2**40)


@pytest.mark.parametrize(("given_", "expected"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_published_answers(
    given_: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert philox(given_[:4], given_[4:]) == expected
    words = [np.array([word, 1], np.uint64) for word in given_]
    assert tuple(int(word[0]) for word in philox(words[:4], words[4:])) == expected


@given(st.lists(st.tuples(seeds, counters, counters), min_size=1, max_size=9))
def test_many_rows_at_once_equal_each_row_alone(rows: list[tuple[int, int, int]]) -> None:
    """Few rows and many, in whatever order and company, bit by bit."""
    together = uniform(*(list(column) for column in zip(*(rows * 5), strict=True)))
    alone = [uniform([seed], [place], [use])[0] for seed, place, use in rows * 5]
    assert np.array_equal(together, np.stack(alone))


def grid(seed: int = 0, use: int = 0) -> NDArray[np.float64]:
    """The numbers of many places, [places, 2]."""
    return uniform([seed] * MANY, range(MANY), [use] * MANY)


@pytest.mark.parametrize("column", [KEEP, DRAW])
@pytest.mark.parametrize("along", ["places", "seeds", "high bits of seeds", "uses"])
def test_numbers_are_uniform(along: str, column: int) -> None:
    """Chi-square of 1,024 bins: ten bits of the upper ones, of the middle and near the end."""
    zeros, numbers = [0] * MANY, range(MANY)
    at = {
        "places": (zeros, numbers, zeros),
        "seeds": (numbers, zeros, zeros),
        "high bits of seeds": ([n << 40 for n in numbers], zeros, zeros),
        "uses": (zeros, zeros, numbers),
    }
    made = uniform(*at[along])[:, column]
    assert made.min() >= 0
    assert made.max() < 1
    for digits in (made, made * 2**20 % 1, made * 2**40 % 1):
        counts, _ = np.histogram(digits, 1024, (0, 1))
        assert chisquare(counts).pvalue > 1e-4


PAIRS: dict[str, Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]] = {
    "neighbouring places": lambda: (grid()[:-1, DRAW], grid()[1:, DRAW]),
    "neighbouring seeds": lambda: (grid(7)[:, DRAW], grid(8)[:, DRAW]),
    "seeds that differ in the highest bit": lambda: (grid(7)[:, DRAW], grid(7 - 2**63)[:, DRAW]),
    "neighbouring uses": lambda: (grid(0, 0)[:, DRAW], grid(0, 1)[:, DRAW]),
    "a place and a use that change sides": lambda: (
        uniform([0] * MANY, range(1, MANY + 1), [0] * MANY)[:, DRAW],
        uniform([0] * MANY, [0] * MANY, range(1, MANY + 1))[:, DRAW],
    ),
    "to keep and to draw": lambda: (grid()[:, KEEP], grid()[:, DRAW]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_independent(name: str) -> None:
    """Chi-square of 32 × 32 cells."""
    cells, _, _ = np.histogram2d(*PAIRS[name](), bins=32, range=[(0, 1), (0, 1)])
    assert chisquare(cells.ravel()).pvalue > 1e-4


def test_every_bit_of_a_seed_changes_the_numbers() -> None:
    bits = [0, *(1 << bit for bit in range(63)), -(2**63)]
    known = [1, 2**32 + 1, 5 * 2**32 + 1, 2**40, -1, 2**63 - 1]  # what has been one text
    numbers = uniform([*bits, *known], [3] * 71, [0] * 71)
    distinct = len({*bits, *known})
    assert len({*map(tuple, numbers.tolist())}) == distinct
    assert len({*numbers[:, KEEP]}) == len({*numbers[:, DRAW]}) == distinct


@pytest.mark.parametrize("by_place", [True, False])
def test_after_a_rollback_the_random_numbers_are_new(by_place: bool) -> None:
    first = Draws(5, by_place)
    assert (first.after_trial() == first) is by_place
    assert first.after_rewind() != first
    used, draws = [], first
    for _ in range(5):
        used.append(draws.use)
        draws = draws.after_trial().after_rewind()
    assert len({*used}) == 5


def test_fresh_seeds_have_64_bits() -> None:
    fresh = [random_numbers.fresh_seed() for _ in range(64)]
    assert len({*fresh}) == 64
    assert max(fresh) >= 2**60  # but for a chance of 2 ** -256
