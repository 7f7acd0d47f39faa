"""Take the steps of a training: losses, batches and the optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from marith.errors import ModelError
from marith.training import labelled_texts, prefixes
from marith.training.base import Base
from marith.training.encoded_texts import EncodedTexts
from marith.training.prefixes import Batch, Prefix, SpecialTokens
from marith.training.settings import Settings

# The number of tokens whose prefixes are judged both ways, by one pass and by separate passes.
_PROBED = 12
# The largest difference that counts as equal, as a share of the largest logit.
_TOLERANCE = 1e-3
# The share of the steps in which the rate rises, as for RoBERTa (Liu et al., 2019, table 10).
WARM_UP = 0.06
# This is the paper's rate, for a RoBERTa of 125 million weights.
RATE = 1e-5
# A base of fewer than SMALL weights, in particular with a new head, learns nothing at RATE, so its
# default is SMALL_RATE (docs/how-to/training.md).
SMALL, SMALL_RATE = 50_000_000, 3e-4
DECAY = 0.01
CLIP = 1.0


def prefix_logits(model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the logits after every prefix, [rows, length, classes], of a causal model."""
    hidden = model.base_model(input_ids=tokens, attention_mask=mask).last_hidden_state
    return model.score(hidden)  # type: ignore[no-any-return]  # modules are typed as Any


@torch.inference_mode()
def judges_every_prefix(model: Any, special_tokens: SpecialTokens, tokens: Sequence[int]) -> bool:
    """Return True if one pass over a text judges its prefixes as separate passes would.

    This should be true of a causal model with a linear head. To test it, both results are computed
    for the prefixes of `tokens`, which contain no padding.
    """
    linear = isinstance(getattr(model, "score", None), nn.Linear)
    if not linear or special_tokens.foot or not tokens:
        return False
    model.eval()
    text = torch.tensor([special_tokens.around(tokens[:_PROBED])], device=model.device)
    seen = torch.ones_like(text)
    ends = range(max(1, len(special_tokens.head)), text.shape[1] + 1)
    prefixes = ({"input_ids": text[:, :end], "attention_mask": seen[:, :end]} for end in ends)
    alone = torch.cat([model(**prefix).logits for prefix in prefixes])
    at_once = prefix_logits(model, text, seen)[0, ends.start - 1 :]
    largest = float(alone.abs().max())
    return bool(torch.allclose(at_once, alone, rtol=0, atol=_TOLERANCE * largest))


def loss_of_every_prefix(
    model: Any, batch: Batch, special_tokens: SpecialTokens, padding: int
) -> Tensor:
    """Return the expected loss of a prefix of random length, as the mean over all prefixes.

    A classifier ignores padding tokens at the end of a prefix, so a prefix that ends in the padding
    token has weight 0.
    """
    logits = prefix_logits(model, batch.tokens, batch.mask)
    classes = batch.classes[:, None].expand(batch.tokens.shape)
    losses = functional.cross_entropy(logits.transpose(1, 2), classes, reduction="none")
    judged = batch.mask * (batch.tokens != padding)
    judged[:, : max(0, len(special_tokens.head) - 1)] = 0
    shares = judged / judged.sum(dim=1, keepdim=True).clamp(min=1)
    return (losses * shares).sum() / len(losses)


def loss_of_each(model: Any, batch: Batch) -> Tensor:
    """Return the mean loss over the rows."""
    logits = model(input_ids=batch.tokens, attention_mask=batch.mask).logits
    return functional.cross_entropy(logits, batch.classes)


class Optimisation:
    """The optimiser of one training, and its batches, which are known in advance."""

    def __init__(self, base: Base, data: EncodedTexts, settings: Settings) -> None:
        self.base = base
        self.data = data
        self.settings = settings
        classes = data.learned.classes
        self.epoch_size = labelled_texts.epoch_size(classes, settings.balance)
        self.steps = math.ceil(self.epoch_size / settings.batch_size) * settings.epochs
        probe = [t for text in data.learned.texts[:8] for t in text if t != base.padding]
        self.every_prefix = judges_every_prefix(base.model, data.special_tokens, probe)
        weights = list(base.model.parameters())
        small = sum(weight.numel() for weight in weights) < SMALL
        self.rate = settings.rate or (SMALL_RATE if small else RATE)
        groups = [
            {"params": [w for w in weights if w.ndim >= 2], "weight_decay": DECAY},
            {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=self.rate, fused=True)

    def batches(self) -> Iterator[Batch]:
        """Yield the batch of each step, epoch after epoch."""
        for epoch in range(self.settings.epochs):
            for group in self._epoch(epoch):
                yield self._batch(group)

    def take(self, step: int, batch: Batch) -> float:
        """Take one step, and return the loss before it. Raises ModelError for infinity and NaN."""
        self.base.model.train()
        if self.every_prefix:
            special_tokens, padding = self.data.special_tokens, self.base.padding
            loss = loss_of_every_prefix(self.base.model, batch, special_tokens, padding)
        else:
            loss = loss_of_each(self.base.model, batch)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ModelError(
                f"the loss is {value!r} at step {step}: the rate {self.rate!r} is too high"
            )
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.base.model.parameters(), CLIP)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * rate_at(step, self.steps)
        self.optimiser.step()
        return value

    def _epoch(self, number: int) -> list[list[Prefix]]:
        learned, settings = self.data.learned, self.settings
        chosen = labelled_texts.epoch(learned.classes, settings.balance, settings.seed, number)
        if self.every_prefix:
            chosen_prefixes = [Prefix(example, len(learned.texts[example])) for example in chosen]
        else:
            shortest = self.data.special_tokens.shortest
            chosen_prefixes = prefixes.drawn(learned.texts, chosen, shortest, settings.seed, number)
        return prefixes.grouped(chosen_prefixes, settings.batch_size, settings.seed, number)

    def _batch(self, group: list[Prefix]) -> Batch:
        learned, special_tokens = self.data.learned, self.data.special_tokens
        rows = [
            special_tokens.around(learned.texts[prefix.example][: prefix.length])
            for prefix in group
        ]
        classes = [learned.classes[prefix.example] for prefix in group]
        return Batch.of(rows, classes, self.base.padding, self.base.model.device)


def rate_at(step: int, steps: int) -> float:
    """Return a step's share of the peak rate, which rises linearly, then falls linearly to 0."""
    warm = max(1, round(WARM_UP * steps))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm + 1))
