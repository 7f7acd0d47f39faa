"""The conformance suite for `Marith` on pocket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.llms import LLM
from transformers import AutoTokenizer

from llamaindex_marith import Marith
from llamaindex_marith.testing import LLMConformance
from marith.scoring.checkpoints.locate import locate
from marith.testing import save_scripted


class Pocket(LLMConformance):
    """Real weights; only the reasoning comes from a script, because pocket has none.

    The model is pocket's draft, whose passes cost a fifth; `tests/evidence` runs pocket itself.
    """

    supports_logprobs = True
    supports_tools = True
    supports_reasoning = True
    context_window = 1024
    model = "pocket-draft"
    reasoning_model = ""

    @pytest.fixture(autouse=True)
    def _set_reasoning_model(self, thinking_dir: str) -> None:
        self.reasoning_model = thinking_dir

    def make(self, **options: Any) -> LLM:
        return Marith(**{"model": self.model, **options})

    def lasting(self) -> LLM:
        """At a low temperature the answer of so small a model would be too short."""
        return self.make(temperature=3.0, seed=1, max_tokens=80)

    def unloaded(self) -> LLM:
        return self.make(model="/nowhere")

    def thinking(self) -> tuple[LLM, str]:
        return self.make(model=self.reasoning_model, temperature=0.0), self.question

    def tokenizer(self, llm: Any) -> Callable[[str], list[Any]]:
        return llm.encode


def save_thinking(folder: Path) -> str:
    """A checkpoint that reasons before it answers, with a template that mentions reasoning."""
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- <think></think> -#}"
    return save_scripted(folder, [("", "<think>A greeting.</think>Good day.")], tokenizer)
