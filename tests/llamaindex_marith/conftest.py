"""How a test makes its model: over random weights, or over what is written for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llamaindex_marith import Marith

Make = Callable[..., Marith]

KNOWN = {"temperature": 0.9, "seed": 5, "max_tokens": 24}
FORMULA = {"formula": "2*a - 0.5*b", "terms": {"a": "a b c", "b": "x y z"}}


@pytest.fixture
def make(tiny_dir: str) -> Make:
    """A model over random weights."""

    def made(**options: Any) -> Marith:
        return Marith(**{"model": tiny_dir, **KNOWN, **FORMULA, **options})

    return made


@pytest.fixture(scope="session")
def thinking_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that thinks before it speaks, by a template that knows of reasoning."""
    from transformers import AutoTokenizer

    from marith.scoring.places import locate
    from marith.testing import save_scripted

    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- <think></think> -#}"
    script = [("", "<think>A greeting.</think>Good day.")]
    return save_scripted(tmp_path_factory.mktemp("thinking"), script, tokenizer)
