"""Sliders: of 500 random texts, numbers and values the first flip is where the new text differs.

Half of the texts are sampled at temperature 1, half are greedy.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from support.house import build
from support.redrawn import cases, flips

CASES = 500


def test_every_first_flip_is_foreseen(tmp_path: Path, report: Callable[[str], None]) -> None:
    foreseen, sampled = [], 0
    for house in build(tmp_path):
        tried = ((case, flips(house.engine, case)) for case in cases(house.terms, 23))
        real = islice(((case, pair) for case, pair in tried if pair is not None), CASES)
        for case, pair in real:
            foreseen.append(pair)
            sampled += case.request.sampling.temperature > 0
    flipped = sum(actual is not None for _, actual in foreseen)
    right = sum(one == other for one, other in foreseen)
    report(f"{right} of {CASES} foreseen; {flipped} texts flip, {sampled} are sampled")
    assert right == CASES
    assert 0.4 < sampled / CASES < 0.6
    assert 0.2 < flipped / CASES < 0.95
