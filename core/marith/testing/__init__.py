"""Provide small real models for tests.

- `models`: models with random weights, real tokenizers and real caches. Downloads nothing.
- `scripted`: a model that returns the replies of a script.
"""

from __future__ import annotations

from marith.testing.models import (
    CHAT_TEMPLATE,
    END,
    FAMILIES,
    LETTERS,
    START,
    tiny_classifier,
    tiny_model,
    tiny_tokenizer,
)
from marith.testing.scripted import ScriptedConfig, ScriptedModel, save_scripted, scripted_model

__all__ = [
    "CHAT_TEMPLATE",
    "END",
    "FAMILIES",
    "LETTERS",
    "START",
    "ScriptedConfig",
    "ScriptedModel",
    "save_scripted",
    "scripted_model",
    "tiny_classifier",
    "tiny_model",
    "tiny_tokenizer",
]
