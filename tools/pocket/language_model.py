"""Train one pocket language model from scratch, equal for equal seeds and token counts."""

from __future__ import annotations

import copy
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from tools.pocket import batches, corpus
from tools.pocket.batches import Batch
from tools.pocket.tokenizer import CONTEXT, VOCABULARY

WARM_UP = 0.02
FINAL_RATE = 0.02
REPORT_EVERY = 50
SAVE_EVERY = 250


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a model."""

    hidden: int
    layers: int
    heads: int
    intermediate: int


SHAPES = {"pocket": Shape(256, 6, 4, 704), "pocket-draft": Shape(96, 2, 2, 224)}


@dataclass(frozen=True, slots=True)
class Course:
    """One training run: its number of tokens, the tokens of a step, and the peak rate.

    The rate falls towards zero over `horizon` tokens. The run may see only a part of them.
    """

    tokens: int
    horizon: int
    step: int = 6144
    batch: int = 2048
    rate: float = 3e-3
    seed: int = 0
    muon: bool = True
    held_out: int = 1500


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. Perplexity of each kind is over replies of held-out documents."""

    parameters: int
    tokens: int
    steps: int
    seconds: float
    perplexity: dict[str, float]
    course: dict[str, float]


def blank(shape: Shape) -> LlamaForCausalLM:
    """Return a model with random weights."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        pad_token_id=batches.PAD,
        bos_token_id=None,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config)


def optimizers(model: LlamaForCausalLM, course: Course) -> list[Optimizer]:
    """Return Muon for the matrices between layers, and AdamW for everything else."""
    within = [p for p in model.model.layers.parameters() if p.ndim == 2]
    table = [model.model.embed_tokens.weight]
    norms = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": table, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    if not course.muon:
        groups.append({"params": within, "weight_decay": 0.1})
    adam = torch.optim.AdamW(groups, lr=course.rate, betas=(0.9, 0.95), fused=True)
    if not course.muon:
        return [adam]
    muon = torch.optim.Muon(
        within, lr=course.rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, adam]


def rate_at(done: float) -> float:
    """Return the learning rate as a share of its peak, when `done` of the horizon is seen."""
    if done < WARM_UP:
        return max(done, WARM_UP / 10) / WARM_UP
    return 1 - (1 - FINAL_RATE) * (done - WARM_UP) / (1 - WARM_UP)


def losses_of(model: LlamaForCausalLM, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the losses of all tokens with a weight, and their weights: both [count]."""
    weights = batch.weights[:, 1:]
    chosen = weights > 0
    hidden = model.model(input_ids=batch.tokens[:, :-1], use_cache=False).last_hidden_state
    # The product with the vocabulary is a fifth of the work, so only tokens with a loss get it.
    logits = model.lm_head(hidden[chosen])
    losses = functional.cross_entropy(logits.float(), batch.tokens[:, 1:][chosen], reduction="none")
    return losses, weights[chosen]


def learn(model: LlamaForCausalLM, group: list[Batch], device: torch.device) -> float:
    """Leave the gradient of one step in the model, and return its mean loss."""
    total = sum(float(batch.weights[:, 1:].sum()) for batch in group)
    mean = 0.0
    for batch in group:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            losses, weights = losses_of(model, batch.to(device))
        loss = (losses * weights).sum() / total
        loss.backward()
        mean += float(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return mean


@torch.no_grad()
def perplexity(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, count: int, seed: int
) -> dict[str, float]:
    """Return the perplexity of replies of `count` held-out documents, by kind and of `all`."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    by_kind = defaultdict(list)
    for document in islice(corpus.documents(seed, held_out=True), count):
        by_kind[document.kind].append(corpus.render(document, tokenizer))
    for kind, rows in by_kind.items():
        for batch in batches.split(rows, 4096):
            with torch.autocast(model.device.type, dtype=torch.bfloat16):
                losses, weights = losses_of(model, batch.to(model.device))
            reply_losses = losses[weights == 1]
            for name in (kind, "all"):
                sums[name][0] += float(reply_losses.sum())
                sums[name][1] += len(reply_losses)
    return {name: round(math.exp(loss / max(n, 1)), 4) for name, (loss, n) in sorted(sums.items())}


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write a bfloat16 copy of the weights, which is usable also halfway through a run."""
    halved = nn.Module.to(copy.deepcopy(model), torch.bfloat16)
    halved.save_pretrained(folder)
    # safetensors writes files for their owner only, but an installed wheel belongs to root.
    (folder / "model.safetensors").chmod(0o644)


def shipped(folder: Path) -> LlamaForCausalLM:
    """Return the model as it was written, in float32, so that what is measured is what ships."""
    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model


def train(
    name: str,
    tokenizer: PreTrainedTokenizerFast,
    course: Course,
    folder: Path,
    begin: Path | None = None,
) -> Figures:
    """Train the model `name`, and save it in `folder`, also at some checkpoints before.

    It starts from the weights in `begin`, or from random ones.
    """
    torch.manual_seed(course.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = shipped(begin) if begin else blank(SHAPES[name])
    nn.Module.to(model, device)
    model.train()
    # Before hours of work, this fails if a kind has no held-out documents.
    print(f"{name} held out {perplexity(model, tokenizer, 200, 1)}", flush=True)
    start, seen, step = time.monotonic(), 0, 0
    for step, seen, loss in run(model, tokenizer, course, name):
        if step % REPORT_EVERY == 0:
            pace = seen / (time.monotonic() - start)
            print(f"{name} step {step} tokens {seen} loss {loss:.4f} tok/s {pace:.0f}", flush=True)
        if step % SAVE_EVERY == 0:
            print(f"{name} held out {perplexity(model, tokenizer, 200, 1)}", flush=True)
            save(model, folder)
    save(model, folder)
    return Figures(
        parameters=sum(p.numel() for p in model.parameters()),
        tokens=seen,
        steps=step,
        seconds=round(time.monotonic() - start, 1),
        perplexity=perplexity(shipped(folder), tokenizer, course.held_out, 2),
        course=asdict(course),
    )


def run(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, course: Course, name: str
) -> Iterator[tuple[int, int, float]]:
    """Take every step of a course. Yields its number, the tokens so far, and the loss."""
    chosen = optimizers(model, course)
    stream = corpus.documents(course.seed)
    groups = batches.steps(stream, tokenizer, course.step, course.batch)
    seen = 0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task(name, total=course.tokens, loss=math.nan)
        for step, group in enumerate(groups, start=1):
            for optimizer in chosen:
                optimizer.zero_grad()
                for settings in optimizer.param_groups:
                    settings["lr"] = course.rate * rate_at(min(1.0, seen / course.horizon))
            loss = learn(model, group, model.device)
            for optimizer in chosen:
                optimizer.step()
            seen += sum(batch.count for batch in group)
            progress.update(bar, completed=seen, loss=loss)
            yield step, seen, loss
            if seen >= course.tokens:
                return
