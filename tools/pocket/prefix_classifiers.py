"""Train small classifiers that judge any prefix of a reply (FUDGE, Yang & Klein 2021)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

from tools.pocket import batches, corpus
from tools.pocket.batches import Batch
from tools.pocket.language_model import rate_at, save
from tools.pocket.tokenizer import CONTEXT, VOCABULARY

CLASSES = {
    "toxicity": ("civil", "toxic"),
    "sentiment": ("negative", "positive"),
    "formality": ("informal", "formal"),
    "education": ("other", "educational"),
}
STEPS = 1200
ROWS = 64
PER_CLASS = 8000
HELD_OUT_PER_CLASS = 500
# A label may be rare in the mixture, so the search for examples ends after this many documents.
# A held-out document takes about twenty draws.
LOOK_AT_MOST = {False: 400_000, True: 30_000}
RATE = 2e-3

Examples = tuple[list[list[int]], list[list[int]]]


@dataclass(frozen=True, slots=True)
class Figures:
    """The accuracy on held-out replies, whole and after the first half."""

    parameters: int
    examples: int
    seconds: float
    accuracy: float
    accuracy_at_half: float


def gather(
    tokenizer: PreTrainedTokenizerFast, seed: int, held_out: bool, per_class: int
) -> Mapping[str, Examples]:
    """Return replies as tokens, by classifier and class, from one reading of the corpus."""
    found: dict[str, Examples] = {name: ([], []) for name in CLASSES}
    open_slots = len(CLASSES) * 2
    for looked, document in enumerate(corpus.documents(seed, held_out)):
        if not open_slots or looked == LOOK_AT_MOST[held_out]:
            break
        tokens: list[int] = []
        for name, label in document.labels.items():
            if name not in found or len(found[name][label]) == per_class:
                continue
            tokens = tokens or encode(document.reply, tokenizer)
            found[name][label].append(tokens)
            open_slots -= len(found[name][label]) == per_class
    return found


def encode(reply: str, tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return a reply without marks, as the classifier reads it while it is being written."""
    tokens: list[int] = tokenizer.backend_tokenizer.encode(reply, add_special_tokens=False).ids
    return tokens[:CONTEXT]


def blank(name: str) -> LlamaForSequenceClassification:
    """Return a classifier with random weights."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        pad_token_id=batches.PAD,
        bos_token_id=None,
        eos_token_id=1,
        id2label=dict(enumerate(CLASSES[name])),
        label2id={label: number for number, label in enumerate(CLASSES[name])},
        problem_type="single_label_classification",
    )
    return LlamaForSequenceClassification(config)


def prefix_logits(model: LlamaForSequenceClassification, tokens: Tensor) -> Tensor:
    """Return logits after every prefix [rows, length, 2]. A causal model reads no further."""
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    return model.score(hidden)  # type: ignore[no-any-return]  # modules are typed as Any


def balanced(examples: Examples, rng: random.Random) -> Iterator[tuple[Batch, Tensor]]:
    """Yield batches with equally many rows of both classes, and labels [rows], without end."""
    while True:
        rows = [(row, 1.0 / len(row), label) for label in (0, 1)
                for row in rng.choices(examples[label], k=ROWS // 2)]  # fmt: skip
        batch = batches.stack([(row, [weight] * len(row)) for row, weight, _ in rows])
        yield batch, torch.tensor([label for *_, label in rows])


def train(
    name: str, examples: Examples, held_out: Examples, seed: int, folder: Path, steps: int = STEPS
) -> Figures:
    """Train the classifier `name` on every prefix of its examples, and save it in `folder`."""
    for label, rows in zip(CLASSES[name], examples, strict=True):
        if not rows:
            raise ValueError(f"no document of the corpus is labelled {name}={label!r}")
    torch.manual_seed(seed)
    model, start = blank(name), time.monotonic()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, fused=True)
    for step, (batch, labels) in enumerate(balanced(examples, random.Random(seed))):
        if step == steps:
            break
        loss = prefix_loss(model, batch, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = RATE * rate_at(step / steps)
        optimizer.step()
        if step % 200 == 0:
            print(f"{name} step {step} loss {float(loss.detach()):.4f}", flush=True)
    save(model, folder)
    return Figures(
        parameters=sum(p.numel() for p in model.parameters()),
        examples=sum(map(len, examples)),
        seconds=round(time.monotonic() - start, 1),
        accuracy=accuracy(model, held_out, 1.0),
        accuracy_at_half=accuracy(model, held_out, 0.5),
    )


def prefix_loss(model: LlamaForSequenceClassification, batch: Batch, labels: Tensor) -> Tensor:
    """Return the expected loss of a prefix of random length, as the mean over all prefixes."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = prefix_logits(model, batch.tokens)
    expanded_labels = labels[:, None].expand(batch.tokens.shape)
    losses = functional.cross_entropy(
        logits.float().transpose(1, 2), expanded_labels, reduction="none"
    )
    return (losses * batch.weights).sum() / batch.weights.sum()


@torch.no_grad()
def accuracy(model: LlamaForSequenceClassification, examples: Examples, share: float) -> float:
    """Return the balanced accuracy from `share` of a reply on."""
    rates = []
    for label, rows in enumerate(examples):
        right = 0
        for row in rows:
            seen = torch.tensor([row[: max(1, round(share * len(row)))]])
            right += int(prefix_logits(model, seen)[0, -1].argmax()) == label
        rates.append(right / max(1, len(rows)))
    return round(sum(rates) / len(rates), 4)
