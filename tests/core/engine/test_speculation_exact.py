"""Whatever is drafted and however late terms verify, tokens have the formula's distribution.

`tests/laws` proves it of every path; here a few draws show that the engine is wired so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from support.drawn_cases import CHAIN, EIGHTH, PLANNED, TWENTIETH
from support.small_engine import END, SmallEngine, truths_of

from marith import Completion
from marith.decoding.sampling import warp
from marith.request.completion import StageStats

WIRED = {**dict.fromkeys(list(PLANNED)[:2], TWENTIETH), CHAIN: EIGHTH}


def stand_as_predicted(done: Sequence[Completion]) -> bool:
    """Whether as many tokens stood in each stage as 1 − TV says, to five standard errors."""
    stages: dict[str, list[StageStats]] = {}
    for stage in (stage for one in done for stage in one.stats.stages):
        stages.setdefault(stage.part, []).append(stage)
    return all(
        abs(sum(one.accepted - one.predicted * one.evaluated for one in alike))
        < 2.5 * math.sqrt(sum(one.evaluated for one in alike))
        for alike in stages.values()
    )


@pytest.mark.parametrize("name", WIRED)
def test_every_token_has_the_probability_of_the_formula(small: SmallEngine, name: str) -> None:
    _, done = PLANNED[name].require_distribution(small, WIRED[name])
    assert stand_as_predicted(done)


def test_the_expected_probabilities_are_those_of_the_reference_decoder(small: SmallEngine) -> None:
    """Uncached passes over whole texts, and the reference's own, one prefix after another."""
    for name, case in PLANNED.items():
        request = case.requests(small)[0]
        text = [3, 2, 2, 7, END]
        rows = [
            warp(small.reference.distribution(request, text[:at]), request.sampling)
            for at in range(len(text))
        ]
        truths = truths_of(small, request, [[4], text])[1:]
        torch.testing.assert_close(truths, torch.cat(rows).exp(), msg=name)
