"""The two adapters that ship: trained in a few steps, and small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marith.scoring.passes.lora import Adapter, read
from marith.scoring.weights.loader import Placement, language_model
from marith.scoring.weights.locate import WEIGHTS
from tools.pocket import adapters, model_card, tokenizer

VOICES = tuple(adapters.TOXIC)


def test_a_short_training_ends_with_an_adapter_that_can_be_read(tmp_path: Path) -> None:
    course = adapters.Course(steps=6, step=200, batch=200, rank=1, held_out=4)
    reader = tokenizer.load(WEIGHTS / "pocket")
    figures = adapters.train("rude", WEIGHTS / "pocket", reader, course, tmp_path)
    assert figures.perplexity < figures.perplexity_of_base
    adapter = read(str(tmp_path), language_model("pocket", Placement(device="cpu")).model)
    assert adapter.rank == 1
    assert len(adapter.updates) == 12


@pytest.mark.parametrize("voice", VOICES)
def test_what_ships_is_small_and_names_no_machine(voice: str) -> None:
    files = sorted((WEIGHTS / voice).iterdir())
    assert [file.name for file in files] == ["adapter_config.json", "adapter_model.safetensors"]
    assert model_card.size(WEIGHTS / voice) <= 75_000
    config = json.loads(files[0].read_text())
    assert config["base_model_name_or_path"] == "pocket"
    assert "/" not in json.dumps(config)
    assert shipped(voice).rank == config["r"]


def shipped(voice: str) -> Adapter:
    return read(f"pocket-{voice}", language_model("pocket", Placement(device="cpu")).model)
