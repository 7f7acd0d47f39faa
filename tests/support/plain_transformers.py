"""A GGUF file by transformers alone, in float32, to compare the engine with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from marith import Prompted

FORMAL = "You are an assistant using formal and objective language to answer the user."
TERMS = {
    "formal": FORMAL,
    "toxic": "You are rude. You insult everyone.",
    "child": "You are a child.",
}
PLAIN = {
    "M": Prompted(template="plain"),
    **{name: Prompted(text, template="plain") for name, text in TERMS.items()},
}


class Plain:
    """A model by transformers alone, in float32, and its tokenizer."""

    def __init__(self, file: Path) -> None:
        where: dict[str, Any] = {"gguf_file": file.name}
        self.tokenizer = AutoTokenizer.from_pretrained(file.parent, **where)
        self.model = AutoModelForCausalLM.from_pretrained(
            file.parent, dtype=torch.float32, **where
        ).eval()

    def prompt(self, question: str, system: str = "") -> list[int]:
        """Return the tokens of a question, by the chat template, or as plain text without one."""
        if self.tokenizer.chat_template is None:
            return list(self.tokenizer(f"{system}\n{question}" if system else question).input_ids)
        messages = [{"role": "user", "content": question}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        text = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    @torch.no_grad()
    def logprobs(self, prompt: list[int], continuation: list[int]) -> torch.Tensor:
        """Return the log-probabilities [tokens, vocab] at each token of a continuation."""
        ids = torch.tensor([prompt + continuation[:-1]])
        return torch.log_softmax(self.model(ids).logits[0, len(prompt) - 1 :].float(), dim=-1)

    @torch.no_grad()
    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """Return the likeliest tokens after a prompt, by `generate`."""
        ids = torch.tensor([prompt])
        text = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count
        )
        return [int(token) for token in text[0, len(prompt) :]]
