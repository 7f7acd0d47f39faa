"""The two adapters that ship: trained on their voices unasked, and steering one base together."""

from __future__ import annotations

import json
import random
import statistics
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

from marith.evals.measures import attribute
from marith.evals.system_prompts import SYSTEM_PROMPTS
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.adapters import Adapted, Adapter, read
from marith.scoring.places import WEIGHTS
from marith.scoring.shelf import Placement, language_model
from marith.scoring.templates import to_tokens
from tools.pocket import adapters, corpus, model_card, tokenizer
from tools.pocket.grammar import conversations

VOICES = tuple(adapters.TOXIC)
TALKS = 6


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
