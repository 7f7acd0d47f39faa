"""The two adapters that ship: trained on their voices unasked, and steering one base together."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from marith.evals.system_prompts import SYSTEM_PROMPTS
from marith.scoring.checkpoints.loader import Placement, language_model
from marith.scoring.checkpoints.locate import WEIGHTS
from marith.scoring.language_model.lora import Adapter, read
from tools.pocket import adapters, corpus, model_card, tokenizer

VOICES = tuple(adapters.TOXIC)


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize("held_out", [False, True])
def test_nothing_in_a_prompt_asks_for_the_voice_of_its_reply(voice: str, held_out: bool) -> None:
    drawn = list(islice(adapters.documents(voice, 0, held_out), 60))
    assert drawn == list(islice(adapters.documents(voice, 0, held_out), 60))
    asking = (SYSTEM_PROMPTS["polite"], SYSTEM_PROMPTS["rude"])
    for document in drawn:
        assert not any(prompt in corpus.text_of(document) for prompt in asking)
        assert document.prompt.startswith("Person 1: ") or document.messages
        assert document.labels["toxicity"] == adapters.TOXIC[voice]
        assert document.held_out is held_out
    assert {document.kind for document in drawn} == {"chat", "conversation"}


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


def test_the_card_and_the_figures_tell_of_the_adapters() -> None:
    figures = json.loads((WEIGHTS / "figures.json").read_text())["adapters"]
    assert set(figures) == set(VOICES)
    told = model_card.voices(figures)
    assert told in (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    for voice in VOICES:
        assert f"| {voice} |" in told
        assert figures[voice]["perplexity"] < 0.7 * figures[voice]["perplexity_of_base"]
    assert model_card.voices({}) == ""


def shipped(voice: str) -> Adapter:
    return read(f"pocket-{voice}", language_model("pocket", Placement(device="cpu")).model)
