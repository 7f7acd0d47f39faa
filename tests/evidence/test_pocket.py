"""The models that ship are as good as their card says."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping

import pytest
import torch
from transformers import DynamicCache

from marith import Engine, Sampling, Stop
from marith.formula.tree.terms import Prompted
from marith.models import attribute
from marith.request.prompt import to_prompt
from marith.scoring.passes.lora import Adapted, Adapter, read
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.weights.loader import Placement, language_model
from marith.scoring.weights.locate import WEIGHTS
from tools.pocket import adapters, copying, model_card, prefix_classifiers
from tools.pocket.grammar import conversations
from tools.pocket.tokenizer import load

VOICES = tuple(adapters.TOXIC)
TALKS = 6


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


def shipped(voice: str) -> Adapter:
    return read(f"pocket-{voice}", language_model("pocket", Placement(device="cpu")).model)


def test_two_adapters_over_one_base_steer_its_replies_both_ways() -> None:
    """DExperts (Liu et al. 2021) over one base: M + s·(polite − rude)."""
    draw = random.Random(2)
    prompts = [f"Person 1: {conversations.message(draw)}\nPerson 2:" for _ in range(TALKS)]
    civil, toxic = (
        statistics.mean(attribute(replies(prompts, (1.0, s, -s)), "pocket-toxicity", "toxic"))
        for s in (1.5, -1.5)
    )
    assert civil < 0.25
    assert toxic > 0.7


@torch.inference_mode()
def replies(prompts: list[str], weights: tuple[float, ...], count: int = 16) -> list[str]:
    """What M, polite and rude say together, so weighed: three rows of one pass a token."""
    checkpoint = language_model("pocket", Placement(device="cpu"))
    adapted, source = Adapted(checkpoint.model), torch.Generator().manual_seed(0)
    rows, words = [None, *map(shipped, VOICES)], checkpoint.vocabulary
    texts = []
    for prompt in prompts:
        kept, said = DynamicCache(), list[int]()
        new = to_tokens(Prompted(template="plain"), to_prompt(prompt), words)
        while len(said) < count:
            output = adapted.forward(
                rows, input_ids=torch.tensor([new] * 3), past_key_values=kept, logits_to_keep=1
            )
            heard = torch.log_softmax(output.logits[:, -1].float(), dim=-1)
            mixed = torch.softmax(torch.tensor(weights) @ heard, dim=-1)
            new = torch.multinomial(mixed, 1, generator=source).tolist()
            if new[0] in words.eos_ids:
                break
            said += new
        texts.append(words.decode(said).split("\n")[0])
    return texts
