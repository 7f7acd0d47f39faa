"""Gates choose which model decides a token: compared with the papers' rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import speakers

from marith.formula.tree.signals import POSITION
from marith.recipes import nudged, safe_decoded

M, A, _, _ = speakers(4)
SEEDS = st.integers(0, 10**6)
few = settings(max_examples=12)
FLOOR = 1e-30  # of a mixture whose weights leave a token less than none; the authors take 1e-8


@few
@given(seed=SEEDS, threshold=st.floats(0.01, 1))
def test_the_nudging_model_decides_tokens_of_which_the_model_is_unsure(
    paper: Any, seed: int, threshold: float
) -> None:
    world = paper.world(seed)
    rows = [
        nudger if max(own) < threshold else own
        for own, nudger in zip(world[M], world[A], strict=True)
    ]
    paper.agrees(nudged(M, A, threshold), world, np.array(rows))


def sample_space(base: Any, expert: Any, common: int) -> set[int]:
    """The authors' loop: both models' best so many, and one more of each until enough are shared.

    Tokens that a model cannot say come last, and are none of either's.
    """
    by_base = sorted(range(len(base)), key=lambda token: -base[token])
    by_expert = sorted(range(len(expert)), key=lambda token: -expert[token])
    shared: set[int] = set()
    many = common
    while len(shared) < common and many <= len(base):
        shared |= set(by_base[:many]) & set(by_expert[:many])
        many += 1
    if many > len(base):
        shared = set(range(len(base)))
    return {token for token in shared if base[token] > 0 and expert[token] > 0}


@few
@given(
    seed=SEEDS,
    alpha=st.floats(0.1, 4),
    tokens=st.integers(1, 3),
    common=st.integers(1, 6),
    start=st.integers(0, 3),
)
def test_safe_decoding_shifts_probabilities_on_what_both_find_likely(
    paper: Any, seed: int, alpha: float, tokens: int, common: int, start: int
) -> None:
    places = start + np.arange(3)[:, None]
    world = paper.world(seed).beside({POSITION: places})
    rows = []
    for place, base, expert in zip(places[:, 0], world[M], world[A], strict=True):
        row = np.zeros_like(base)
        for token in sample_space(base, expert, common):
            row[token] = max(base[token] + alpha * (expert[token] - base[token]), FLOOR)
        rows.append(row / row.sum() if place < tokens else base)
    paper.agrees(safe_decoded(M, A, alpha, tokens, common), world, np.array(rows))
