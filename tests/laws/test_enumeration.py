"""Whatever drafts and in whatever stages terms verify: each text has the composed probability.

Exactly: every path of the draft window is followed, with the probability that the product's own
verifier gives it, on three tokens and for texts of six.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from support.enumeration import Enumeration, Sweep, Verifier
from support.window_driver import DraftWindow, Driver, Setup, TokenOrdered, verify
from support.window_setups import SETUPS
from torch import Tensor

BOUND = 1e-12
SWEEP = Sweep()  # what the verifier does with two rows is the same in every set-up
Rest = Callable[[Tensor, Tensor], Tensor]


def hold(
    setup: Setup, sweep: Sweep = SWEEP, window: type[DraftWindow] = DraftWindow
) -> Enumeration:
    """Assert that a window draws each text as the law says."""
    found = Enumeration(Driver(setup, window), sweep)
    error = found.error()
    assert error < BOUND, f"differs from the law by {error}"
    return found


@pytest.mark.parametrize("name", SETUPS)
def test_every_text_has_the_probability_that_the_formula_gives_it(name: str) -> None:
    found = hold(SETUPS[name])
    assert abs(sum(found.ends.texts.values()) - 1.0) < BOUND
    assert bool(found.drafted) is (SETUPS[name].plan is not None)


def lacking(target: Tensor, draft: Tensor) -> Tensor:
    return (target - draft).clamp(min=0.0)


def residual(target: Tensor, draft: Tensor) -> Tensor:
    return lacking(target, draft) / lacking(target, draft).sum()


def whole_target(target: Tensor, draft: Tensor) -> Tensor:
    return target


def verifier_of(rest: Rest) -> Verifier:
    """A verifier that draws a refused token from `rest`, of one target and one draft."""

    def verifier(
        targets: Tensor, drafts: Sequence[Tensor | None], stood: Tensor, chances: Tensor
    ) -> tuple[Tensor, Tensor]:
        if drafts[0] is None:
            return verify(targets, drafts, stood, chances)
        target, draft = targets[0].exp(), drafts[0].exp()
        reached = rest(target, draft).cumsum(0)
        tokens = torch.searchsorted(reached, chances[:, 1].contiguous(), right=True)
        kept = chances[:, 0] * draft[stood] < target[stood]
        return torch.where(kept, stood, tokens.clamp(max=len(target) - 1)), chances[:, 0]

    return verifier


@pytest.mark.parametrize("name", ["texts that end", "drafts whose contexts end"])
@pytest.mark.parametrize("rest", [whole_target, lacking])
def test_a_verifier_that_draws_from_the_wrong_rest_fails(name: str, rest: Rest) -> None:
    with pytest.raises(AssertionError, match="differs from the law"):
        hold(SETUPS[name], Sweep(verifier_of(rest)))


def test_the_same_verifier_with_the_right_rest_holds() -> None:
    hold(SETUPS["texts that end"], Sweep(verifier_of(residual)))


def test_an_order_that_depends_on_a_token_fails() -> None:
    with pytest.raises(AssertionError, match="differs from the law"):
        hold(SETUPS["texts that end"], window=TokenOrdered)
