"""The model that is timed: its tokenizer, and texts that no lane has read before."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.benchmark_settings import LlamaShape
from benchmarks.inflating import inflate
from marith.engine.engine import Engine
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.loader import as_stored
from marith.scoring.weights.placing import Placement
from marith.testing import tiny_tokenizer

CONTEXT = 2048
_SPECIAL = 2  # tokens of the random model that are no words


@dataclass(frozen=True, slots=True)
class TimedPrompt:
    """A question, and the system prompts with which the terms of a formula read it."""

    question: str
    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A model of transformers, with the words of its prompts.

    It has no token that ends a text, so every text has exactly the length that was asked for.
    """

    name: str
    model: Any
    tokenizer: Any
    vocabulary: Vocabulary
    words: tuple[str, ...]

    @classmethod
    def of(
        cls, name: str | None = None, shape: LlamaShape | None = None, dtype: str = "float32"
    ) -> TimedModel:
        """Load or build the model, in a type of torch, on the CPU.

        Without a name it is a random Llama of the shape. With both, it is the model inflated to the
        shape.
        """
        if name is None:
            called = f"random Llama {shape or LlamaShape()}"
            model, tokenizer = _random(shape or LlamaShape())
            model = model.to(getattr(torch, dtype))
        else:
            called = name if shape is None else f"{name} at the cost of {shape}"
            model, tokenizer = _loaded(name, shape, dtype)
        for config in (model.config, model.config.get_text_config(), model.generation_config):
            config.eos_token_id = None
        tokenizer.eos_token = None
        vocabulary = Vocabulary(tokenizer, model.config.get_text_config().vocab_size)
        return cls(called, model.eval(), tokenizer, vocabulary, _words(vocabulary))

    def text(self, count: int, seed: str) -> str:
        """Return `count` words, equal for equal seeds and different for every other seed."""
        draw = random.Random(seed)  # noqa: S311 (texts, not secrets)
        return " ".join(draw.choice(self.words) for _ in range(count))

    def prompt(self, terms: int, seed: str, system: int = 12, question: int = 16) -> TimedPrompt:
        """Return a question of `question` words, and system prompts of `system` words."""
        systems = (self.text(system, f"{seed}, system {i}") for i in range(terms))
        return TimedPrompt(self.text(question, f"{seed}, question"), tuple(systems))

    def engine(self, lanes: int) -> Engine:
        """Return an engine over the model, which lays out a copy of its weights."""
        return Engine.load(self.model, tokenizer=self.tokenizer, max_lanes=lanes)

    def readings(self, prompt: TimedPrompt) -> list[list[int]]:
        """Return the tokens that each term reads, which a baseline then reads too."""
        messages = to_prompt(prompt.question)
        return [to_tokens(Prompted(text), messages, self.vocabulary) for text in prompt.systems]


def _random(shape: LlamaShape) -> tuple[Any, Any]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            intermediate_size=shape.intermediate,
            vocab_size=shape.vocabulary,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
        )
        model = LlamaForCausalLM(config)
    words = [f"w{i}" for i in range(shape.vocabulary - _SPECIAL)]
    return model, tiny_tokenizer(words)


def _loaded(name: str, shape: LlamaShape | None, dtype: str) -> tuple[Any, Any]:
    """Return a checkpoint as transformers loads it, or inflated to a shape."""
    model, tokenizer = as_stored(name, Placement(device="cpu", dtype=dtype))
    if shape is not None:
        model = inflate(model, shape.hidden, shape.layers, shape.intermediate)
    return model, tokenizer


def _words(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return every token that is a word by itself."""
    texts = (vocabulary.decode([i]).strip() for i in range(vocabulary.size))
    return tuple(sorted({text for text in texts if text.isascii() and text.isalnum()}))
