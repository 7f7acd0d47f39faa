"""What the conformance suite asks of `Marith` on pocket."""

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
    """Real weights; only its thoughts are written for it, since pocket has none.

    The suite asks its draft, whose passes cost a fifth; `tests/evidence` asks pocket itself.
    """

    supports_logprobs = True
    supports_tools = True
    supports_reasoning = True
    context_window = 1024
    model = "pocket-draft"
    thinker = ""

    @pytest.fixture(autouse=True)
    def _has_a_thinker(self, thinking_dir: str) -> None:
        self.thinker = thinking_dir

    def make(self, **options: Any) -> LLM:
        return Marith(**{"model": self.model, **options})

    def lasting(self) -> LLM:
        """So small a model soon comes to an end, unless it is too warm to."""
        return self.make(temperature=3.0, seed=1, max_tokens=80)

    def unloaded(self) -> LLM:
        return self.make(model="/nowhere")

    def thinking(self) -> tuple[LLM, str]:
        return self.make(model=self.thinker, temperature=0.0), self.question

    def tokenizer(self, llm: Any) -> Callable[[str], list[Any]]:
        return llm.encode


def save_thinking(folder: Path) -> str:
    """A checkpoint that thinks before it answers, by a template that knows of reasoning."""
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template += "{#- <think></think> -#}"
    return save_scripted(folder, [("", "<think>A greeting.</think>Good day.")], tokenizer)
