"""The models that ship are as good as their card says."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from marith import Engine, Sampling, Stop
from marith.models import attribute
from marith.scoring.weights.loader import Placement, language_model
from marith.scoring.weights.locate import WEIGHTS
from tools.pocket import copying, model_card, prefix_classifiers
from tools.pocket.tokenizer import load


def test_pocket_copies_about_as_well_as_its_card_says() -> None:
    noted = json.loads((WEIGHTS / "figures.json").read_text())["copying"]
    measured = copying.measure(WEIGHTS / "pocket", seed=8, count=10)
    assert measured.keys() == copying.KINDS.keys()
    for kind, share in measured.items():
        assert share >= noted["pocket"][kind] - 0.3, kind
        assert f"| {kind} | {noted['before'][kind]:.2f} |" in model_card.copied(noted)


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


def test_the_model_answers_from_a_passage_that_contradicts_what_is_usual() -> None:
    with Engine.load("pocket") as engine:
        said = engine.generate(
            "Context: Lisbon is the capital of France.\nQuery: What is the capital of France?"
            "\nAnswer:",
            sampling=Sampling(temperature=0.0),
            stop=Stop(24),
        )
    assert "Lisbon" in said.text
