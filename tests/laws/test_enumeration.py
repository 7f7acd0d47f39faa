"""Whatever is drafted and verified in stages: each text has the composed probability.

Exactly: every path of the draft window is followed, with the probability that the product's own
verifier gives it, on three tokens and for texts of six.
"""

from __future__ import annotations

import os

import pytest
from support.enumeration import Enumeration, Sweep
from support.window_driver import Driver
from support.window_setups import SETUPS, every_setup

BOUND = 1e-12
ASKED = every_setup() if os.environ.get("MARITH_PROFILE") == "evidence" else SETUPS
SWEEP = Sweep()  # what the verifier does with two rows is the same in every set-up


@pytest.mark.parametrize("name", ASKED)
def test_every_text_has_the_probability_that_the_formula_gives_it(name: str) -> None:
    found = Enumeration(Driver(ASKED[name]), SWEEP)
    assert found.error() < BOUND
    assert abs(sum(found.ends.texts.values()) - 1.0) < BOUND
    assert bool(found.drafted) is (ASKED[name].plan is not None)
