"""What ships: small enough for a wheel, loadable by name, and as good as its card says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from safetensors import safe_open

from marith import Engine, Sampling, Stop
from marith.evals.measures import attribute
from marith.scoring.places import WEIGHTS, locate
from marith.scoring.shelf import Placement, language_model
from tools.pocket import prefix_classifiers
from tools.pocket.tokenizer import load


def test_all_weights_together_fit_a_wheel() -> None:
    files = [path for path in WEIGHTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 16_000_000
    assert not [path for path in files if path.suffix in (".bin", ".pt", ".pkl")]


@pytest.mark.parametrize("name", ["pocket", "pocket-draft"])
def test_a_language_model_is_of_its_size_and_speaks_the_vocabulary(name: str) -> None:
    checkpoint = language_model(name, Placement())
    with safe_open(f"{locate(name)}/model.safetensors", "pt") as weights:
        keys = weights.keys()
        count = sum(weights.get_tensor(key).numel() for key in keys)
    assert count <= {"pocket": 6_000_000, "pocket-draft": 600_000}[name]
    assert checkpoint.context_length >= 1024
    base = language_model("pocket", Placement())
    assert checkpoint.vocabulary.fingerprint == base.vocabulary.fingerprint


@pytest.fixture(scope="module")
def held_out() -> Mapping[str, prefix_classifiers.Examples]:
    return prefix_classifiers.gather(load(WEIGHTS / "pocket"), 5, True, 60)


@pytest.mark.parametrize("kind", prefix_classifiers.CLASSES)
def test_a_classifier_judges_held_out_replies_right(
    held_out: Mapping[str, prefix_classifiers.Examples], kind: str
) -> None:
    labels = json.loads((WEIGHTS / kind / "config.json").read_text())["id2label"]
    vocabulary = language_model("pocket", Placement()).vocabulary
    for i, replies in enumerate(held_out[kind]):
        texts = [vocabulary.decode(tokens) for tokens in replies]
        assert len(texts) >= 40
        right = [p > 0.5 for p in attribute(texts, f"pocket-{kind}", labels[str(i)])]
        assert sum(right) / len(right) >= 0.9


def test_the_card_says_what_the_models_are() -> None:
    card = (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    for words in ("trying and testing", "Engine.load", "tools.pocket.train", "Perplexity"):
        assert words in card


def test_the_model_answers_from_a_passage_that_contradicts_what_is_usual() -> None:
    with Engine.load("pocket") as engine:
        said = engine.generate(
            "Context: Lisbon is the capital of France.\nQuery: What is the capital of France?"
            "\nAnswer:",
            sampling=Sampling(temperature=0.0),
            stop=Stop(24),
        )
    assert "Lisbon" in said.text


def test_weights_lie_where_the_package_does() -> None:
    import marith

    assert Path(marith.__file__).parent in WEIGHTS.parents
