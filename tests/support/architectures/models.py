"""Build small models by name. Their random weights are always the same."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

import torch
from support.architectures.sizes import VOCAB, shrunk
from support.architectures.tables import (
    FAILING,
    OWN,
    REFUSED,
    STATES,
    UNBUILT,
    UNCACHED,
    VARIANTS,
)
from support.chat_families import speaker
from support.uncached_logits import logits_after
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from marith.scoring.weights.layout.rotary_frequencies import original_positions

CLOSE = 1e-3  # nats
LONGEST = 256  # tokens of a text of these tests
MOST = 12_000_000  # weights: what has more is not small
_LISTED = {"states": STATES, "uncached": UNCACHED, "refused": REFUSED, "fails": FAILING,
           "not built": UNBUILT}  # fmt: skip
KINDS = ("cached", *_LISTED)


def names() -> list[str]:
    """Return every architecture that transformers calls a causal language model, and variants."""
    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *VARIANTS})


def expected(name: str) -> str:
    """Return the runner of an architecture, as the tables say."""
    return next((kind for kind, listed in _LISTED.items() if name in listed), "cached")


def build(name: str) -> Any:
    """Return the small model of an architecture. Raises what transformers raises."""
    model_type, sizes = VARIANTS.get(name, (name, {}))
    config = AutoConfig.for_model(model_type, **shrunk(model_type, OWN.get(model_type, {}), sizes))
    with torch.device("meta"):
        count = sum(w.numel() for w in AutoModelForCausalLM.from_config(config).parameters())
    if count > MOST:
        raise ValueError(f"its smallest model has {count:,} weights")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.15)
    return model


def endless() -> Any:
    """Return a tokenizer of single letters, without a token that ends a text."""
    tokenizer = copy.copy(speaker("none").tokenizer)
    tokenizer.eos_token = None
    return tokenizer


def words(count: int, seed: int) -> str:
    """Return a text of `count` tokens."""
    return "".join(ascii_lowercase[(i * i + seed * i + 3) % 26] for i in range(count))


def is_read_as_long(model: Any) -> bool:
    """Return True if texts of this test need the rotary frequencies of long texts."""
    limit = original_positions(model.config)
    return limit is not None and limit < LONGEST


def uncached(model: Any, tokens: Sequence[int]) -> Tensor:
    """Return the model's log-softmax after each prefix, [length, vocab], by transformers alone.

    If marith reads the text with the rotary frequencies of long texts, so does this function: it
    treats the text as the beginning of a long text.
    """
    limit = original_positions(model.config) or 0
    logits = logits_after(model, tokens, len(tokens), limit + 1 if is_read_as_long(model) else 0)
    return torch.log_softmax(logits[:, :VOCAB].float(), dim=-1)
