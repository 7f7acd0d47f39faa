"""Provide small real models for tests, and the state of engines.

- `engine_state`: functions that return what an engine holds and counts.
- `models`: models with random weights, real tokenizers and real caches. Downloads nothing.
- `scripted`: a model that returns the replies of a script.
"""

from __future__ import annotations

from marith.testing.engine_state import cached_bytes, controller_of, lanes_in_use, passes_of
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
    "cached_bytes",
    "controller_of",
    "lanes_in_use",
    "passes_of",
    "save_scripted",
    "scripted_model",
    "tiny_classifier",
    "tiny_model",
    "tiny_tokenizer",
]
