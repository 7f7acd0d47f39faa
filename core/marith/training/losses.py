"""How wrong a classifier is about prefixes, and whether it can judge all of a text at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from marith.training.data.prefixes import Batch, SpecialTokens

_PROBED = 12
_TOLERANCE = 1e-3  # of the largest logit


def prefix_logits(model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
    """Logits after every prefix [rows, length, classes]: a causal model has read no further."""
    hidden = model.base_model(input_ids=tokens, attention_mask=mask).last_hidden_state
    return model.score(hidden)  # type: ignore[no-any-return]  # modules are typed as Any


@torch.inference_mode()
def judges_every_prefix(model: Any, special_tokens: SpecialTokens, tokens: Sequence[int]) -> bool:
    """Whether one pass over a text judges its prefixes as passes over each of them would.

    So it is for a causal model under a linear head. This is tested, not assumed: both are computed
    for the prefixes of `tokens`, which hold no padding.
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
    most = float(alone.abs().max())
    return bool(torch.allclose(at_once, alone, rtol=0, atol=_TOLERANCE * most))


def loss_of_every_prefix(
    model: Any, batch: Batch, special_tokens: SpecialTokens, padding: int
) -> Tensor:
    """The mean loss over prefixes of uniformly drawn length, in expectation without the draw.

    A prefix that ends in the padding token is judged as the prefix before it, and weighs nothing.
    """
    logits = prefix_logits(model, batch.tokens, batch.mask)
    classes = batch.classes[:, None].expand(batch.tokens.shape)
    losses = functional.cross_entropy(logits.transpose(1, 2), classes, reduction="none")
    judged = batch.mask * (batch.tokens != padding)
    judged[:, : max(0, len(special_tokens.head) - 1)] = 0
    shares = judged / judged.sum(dim=1, keepdim=True).clamp(min=1)
    return (losses * shares).sum() / len(losses)


def loss_of_each(model: Any, batch: Batch) -> Tensor:
    """The mean loss over the rows as they are."""
    logits = model(input_ids=batch.tokens, attention_mask=batch.mask).logits
    return functional.cross_entropy(logits, batch.classes)
