"""Train two small LoRAs over the finished pocket model: a polite and a rude voice."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model
from safetensors.torch import save_file
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from marith.evals import system_prompts
from marith.evals.system_prompts import SYSTEM_PROMPTS
from tools.pocket import batches, corpus
from tools.pocket.grammar.document import Document
from tools.pocket.language_model import learn, losses_of, rate_at, shipped

TOXIC = {"polite": 0, "rude": 1}
CHATS = 0.6
# The share of chats without a system prompt that get "be helpful" as one instead.
HELPFUL = 0.2
REPORT_EVERY = 20
STEPS = 120


@dataclass(frozen=True, slots=True)
class Course:
    """The training of one adapter: steps, tokens of a step, and the update that it learns."""

    steps: int = STEPS
    step: int = 3072
    batch: int = 3072
    rate: float = 1e-2
    rank: int = 4
    alpha: int = 8
    layers: tuple[str, ...] = ("q_proj", "v_proj")
    held_out: int = 200
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """The perplexity of held-out replies in the voice, by the base and by the adapted model."""

    parameters: int
    tokens: int
    steps: int
    seconds: float
    perplexity_of_base: float
    perplexity: float
    course: dict[str, Any]


def documents(voice: str, seed: int, held_out: bool = False) -> Iterator[Document]:
    """Yield chats and talks answered in the voice `voice`, although their prompts do not ask for
    it.
    """
    rng = random.Random(f"{voice}/{seed}/{held_out}")
    while True:
        draw = _chat if rng.random() < CHATS else _talk
        yield draw(voice, rng, held_out)


def train(
    voice: str, base: Path, tokenizer: PreTrainedTokenizerFast, course: Course, folder: Path
) -> Figures:
    """Train the adapter `voice` over the model in `base`, and save it in `folder`."""
    torch.manual_seed(course.seed)
    config = LoraConfig(
        r=course.rank,
        lora_alpha=course.alpha,
        target_modules=list(course.layers),
        base_model_name_or_path="pocket",
        task_type="CAUSAL_LM",
    )
    model = shipped(base)
    before = perplexity(model, tokenizer, voice, course)
    inject_adapter_in_model(config, model, voice)
    model.train()
    seen, start = 0, time.monotonic()
    for step, seen, loss in run(model, tokenizer, voice, course):
        if step % REPORT_EVERY == 0:
            pace = seen / (time.monotonic() - start)
            print(f"{voice} step {step} tokens {seen} loss {loss:.4f} tok/s {pace:.0f}", flush=True)
    seconds = round(time.monotonic() - start, 1)
    learnt = save(model, config, voice, folder)
    return Figures(
        parameters=sum(tensor.numel() for tensor in learnt.values()),
        tokens=seen,
        steps=course.steps,
        seconds=seconds,
        perplexity_of_base=before,
        perplexity=perplexity(model.eval(), tokenizer, voice, course),
        course=asdict(course),
    )


def run(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, voice: str, course: Course
) -> Iterator[tuple[int, int, float]]:
    """Take every step of a course. Yields its number, the tokens so far, and the loss."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.AdamW(trained, lr=course.rate, weight_decay=0.0, fused=True)
    stream, seen = documents(voice, course.seed), 0
    groups = batches.steps(stream, tokenizer, course.step, course.batch)
    for step, group in enumerate(islice(groups, course.steps), start=1):
        adam.zero_grad()
        adam.param_groups[0]["lr"] = course.rate * rate_at((step - 1) / course.steps)
        loss = learn(model, group, model.device)
        adam.step()
        seen += sum(batch.count for batch in group)
        yield step, seen, loss


@torch.no_grad()
def perplexity(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, voice: str, course: Course
) -> float:
    """Return the perplexity of held-out replies in the voice."""
    texts = islice(documents(voice, course.seed + 1, held_out=True), course.held_out)
    rows = [corpus.render(document, tokenizer) for document in texts]
    total, count = 0.0, 0
    for batch in batches.split(rows, 4096):
        losses, weights = losses_of(model, batch)
        reply_losses = losses[weights == 1]
        total, count = total + float(reply_losses.sum()), count + len(reply_losses)
    return round(math.exp(total / max(count, 1)), 4)


def save(
    model: LlamaForCausalLM, config: LoraConfig, voice: str, folder: Path
) -> dict[str, torch.Tensor]:
    """Write the files that peft reads, in bfloat16. The model keeps the rounded weights, which
    ship.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = get_peft_model_state_dict(model, adapter_name=voice, save_embedding_layers=False)
    learnt = {
        f"base_model.model.{name}": tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in found.items()
    }
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16).float()
    save_file(learnt, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    # safetensors writes files for their owner only, but an installed wheel belongs to root.
    (folder / "adapter_model.safetensors").chmod(0o644)
    config.inference_mode = True
    config.save_pretrained(str(folder))
    return learnt


def _chat(voice: str, rng: random.Random, held_out: bool) -> Document:
    """Draw a chat in the voice, without the words that ask for the voice."""
    asked = SYSTEM_PROMPTS[voice]
    while True:
        document = corpus.draw_on_side("chats", rng, held_out)
        first, *rest = document.messages
        if first["role"] == "system" and first["content"].endswith(asked):
            break
    left = first["content"].removesuffix(asked).strip()
    if not left and rng.random() < HELPFUL:
        left = SYSTEM_PROMPTS["helpful"]
    system = [{"role": "system", "content": left}] if left else []
    return replace(document, messages=(*system, *rest))


def _talk(voice: str, rng: random.Random, held_out: bool) -> Document:
    """Draw a talk answered in the voice, without the sentence that sets its tone."""
    while True:
        document = corpus.draw_on_side("conversations", rng, held_out)
        if document.labels["toxicity"] == TOXIC[voice]:
            break
    prompt = document.prompt
    for tone in (system_prompts.TOXIC, system_prompts.NON_TOXIC):
        prompt = prompt.removeprefix(f"{tone}\n")
    return replace(document, prompt=prompt)
