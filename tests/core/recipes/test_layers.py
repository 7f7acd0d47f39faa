"""DoLa against the largest divergence over layers, as the paper has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from support.strategies import speakers

from marith import Prompted
from marith.errors import FormulaError
from marith.recipes import dola

M, *LAYERS = speakers(4)


def contrasted(mature: Any, layers: list[Any], alpha: float) -> Any:
    """log q_N / q_M on the plausible tokens, M the layer furthest from N."""
    apart = [jensenshannon(mature, layer) ** 2 for layer in layers]
    premature = layers[int(np.argmax(apart))]
    head = mature >= alpha * mature.max()
    return np.where(head, mature / premature, 0.0)


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 3), alpha=st.sampled_from([0.1, 0.4]))
def test_dola_divides_by_the_layer_that_differs_most(
    paper: Any, seed: int, count: int, alpha: float
) -> None:
    world = paper.world(seed, holes=False)
    layers = LAYERS[:count]
    rows = [
        contrasted(world[M][place], [world[layer][place] for layer in layers], alpha)
        for place in range(3)
    ]
    paper.agrees(dola(M, *layers, alpha=alpha), world, np.array(rows))


def test_a_number_is_an_early_exit_of_the_bare_model() -> None:
    exits = [Prompted(exit_layer=layer) for layer in (0, 2)]
    assert dola(M, 0, 2) == dola(M, *exits)


def test_dola_without_layers_or_with_none_that_can_be_is_refused() -> None:
    with pytest.raises(FormulaError, match="at least one early layer"):
        dola(M)
