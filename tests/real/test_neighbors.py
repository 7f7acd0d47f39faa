"""Texts of SmolLM2 have the same bits alone, among others, after cancels, and paused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.neighbors import differences, requests

from marith import Engine
from tools.real_models import SMOLLM2, RealModel


def test_other_texts_change_no_bit_of_a_text(fetch: Callable[[RealModel], Path]) -> None:
    model = str(fetch(SMOLLM2))
    found = dict(differences(lambda: Engine.load(model), requests(8, 30)))
    assert found == dict.fromkeys(found, 0)
