"""The memory that a model needs is known before it is loaded, in a suitable unit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from marith import Engine, ModelError
from marith.scoring.weights.footprint import (
    Footprint,
    room_for_texts,
)
from marith.scoring.weights.loader import language_model
from marith.scoring.weights.locate import WEIGHTS
from marith.scoring.weights.placing import Placement

LLAMA = {
    "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "tie_word_embeddings": True,
}  # fmt: skip


def test_a_footprint_equals_the_size_of_the_loaded_model() -> None:
    """Norms are left out: some thousandths of a model."""
    for dtype in ("float32", "bfloat16"):
        checkpoint = language_model("pocket", Placement("cpu", dtype))
        takes = Footprint.of(5_868_800, checkpoint.model.config.to_dict())
        assert takes.token_bytes(dtype) == 2 * 6 * 256 * (4 if dtype == "float32" else 2)
        assert takes.tied  # a head that is packed has weights of its own
        assert takes.nbytes(dtype) == pytest.approx(checkpoint.nbytes, rel=0.01)


def test_the_bytes_of_a_token_are_read_from_the_configuration() -> None:
    assert Footprint.of(10**6, LLAMA).token == 2 * 3 * 2 * 16
    assert Footprint.of(10**6, {"text_config": LLAMA}).token == 2 * 3 * 2 * 16
    assert Footprint.of(10**6, {"n_layer": 2, "n_head": 4, "n_embd": 32}).token == 2 * 2 * 32
    assert Footprint.of(10**6, LLAMA | {"model_type": "mamba"}).token is None
    assert Footprint.of(10**6, {}).token is None
    assert "and 100 lanes of 50 fit" in room_for_texts(100, 50, 10**6)
    assert "and 0 lanes of 50 fit" in room_for_texts(100, 50, -5)
    assert not room_for_texts(None, 50, 10**6)


def test_too_large_a_model_is_refused_and_smaller_choices_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(WEIGHTS / "pocket", tmp_path, dirs_exist_ok=True)  # nobody has loaded it yet
    monkeypatch.setattr("marith.scoring.weights.sizes.free_memory", lambda _: 15_000_000)
    with pytest.raises(ModelError) as refused:
        Engine.load(tmp_path, dtype="float32", device="cpu")
    assert (
        "has 5,868,800 weights, which take 28 MB in float32, and 15 MB of memory is free on "
        in (str(refused.value))
    )
    assert str(refused.value).endswith("; dtype='bfloat16' takes 14 MB")
    monkeypatch.setattr("marith.scoring.weights.sizes.free_memory", lambda _: 1_000_000)
    with pytest.raises(ModelError, match="no smaller choice fits either"):
        Engine.load(tmp_path, dtype="float32", device="cpu")
