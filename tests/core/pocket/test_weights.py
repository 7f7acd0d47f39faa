"""What ships: small enough for a wheel, and loadable by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors import safe_open

from marith.scoring.weights.loader import Placement, language_model
from marith.scoring.weights.locate import WEIGHTS, locate


def test_all_weights_together_fit_a_wheel() -> None:
    files = [path for path in WEIGHTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 16_000_000
    assert not [path for path in files if path.suffix in (".bin", ".pt", ".pkl")]


@pytest.mark.parametrize("name", ["pocket", "pocket-draft"])
def test_a_language_model_has_its_size_and_its_vocabulary(name: str) -> None:
    checkpoint = language_model(name, Placement())
    with safe_open(f"{locate(name)}/model.safetensors", "pt") as weights:
        keys = weights.keys()
        count = sum(weights.get_tensor(key).numel() for key in keys)
    assert count <= {"pocket": 6_000_000, "pocket-draft": 600_000}[name]
    assert checkpoint.context_length >= 1024
    base = language_model("pocket", Placement())
    assert checkpoint.vocabulary.fingerprint == base.vocabulary.fingerprint


def test_the_card_describes_the_models() -> None:
    card = (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    for words in ("trying and testing", "Engine.load", "tools.pocket.train", "Perplexity"):
        assert words in card


def test_weights_are_in_the_folder_of_the_package() -> None:
    import marith

    assert Path(marith.__file__).parent in WEIGHTS.parents
