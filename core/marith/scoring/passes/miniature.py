"""A small model of another one's kind: what a mask or a position does wrong, it does too."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import torch

WINDOW = 8  # tokens, of the small model
_VOCAB = 64
_WINDOWED = re.compile(r"window|sliding|chunk|local_att|block_size")
_COUNTED = re.compile(r"layers|pattern|num_|feed_forward")  # no window, though so called


def windows(config: Any, context_length: int) -> Iterator[int]:
    """Every width below the context that the configuration names as a window, whatever its key."""
    for key in _window_keys(config.get_text_config()):
        value = getattr(config.get_text_config(), key)
        for width in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(width, int) and 1 < width < context_length:
                yield width


def _window_keys(text: Any) -> list[str]:
    return [key for key in vars(text) if _WINDOWED.search(key) and not _COUNTED.search(key)]


def miniature(model: Any) -> Any:
    """A model of the same class and configuration with small windows and one layer of each kind.

    At least two layers, random weights, the same for the same configuration.
    """
    config = copy.deepcopy(model.config)
    text = config.get_text_config()
    count = text.num_hidden_layers
    lists = {k: v for k, v in vars(text).items() if isinstance(v, list) and len(v) == count}
    kinds = {repr(kind): i for i, kind in reversed([*enumerate(zip(*lists.values(), strict=True))])}
    layers = sorted({*kinds.values(), *range(min(2, count))})
    for key, value in lists.items():
        setattr(text, key, [value[i] for i in layers])
    for key in _window_keys(text):
        if isinstance(width := getattr(text, key), int) and width > WINDOW:
            setattr(text, key, WINDOW)
    text.num_hidden_layers = len(layers)
    text.vocab_size = min(_VOCAB, text.vocab_size)
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        setattr(text, key, 0)  # those of the whole vocabulary may lie outside
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        small = type(model)(config).eval()
        for weight in small.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
    return small.to(model.device)
