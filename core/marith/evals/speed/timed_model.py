"""What is measured: one plain model, its tokenizer, and texts that nobody has read before."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from marith.engine.engine import Engine
from marith.errors import ModelError
from marith.evals.speed.shape import DEFAULT, FEWEST_WORDS, LlamaShape
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.checkpoints.loader import as_stored
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import inflate, tiny_tokenizer

CONTEXT = 2048
_SAMPLED = 32
_SPECIAL = 2  # tokens of the random model that are no words


@dataclass(frozen=True, slots=True)
class TimedPrompt:
    """A question, and the system prompts under which the terms of a formula read it."""

    question: str
    systems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A model as transformers made it, with the words that its prompts are made of.

    It has no token that ends a text: every text is exactly as long as it was asked to be.
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
        """Load or build it, in a type of torch's, on the CPU.

        Without a name it is a random Llama of the shape; with both, the model inflated to the
        shape. Raises ModelError.
        """
        if name is None:
            called = f"random Llama {shape or DEFAULT}"
            model, tokenizer = _random(shape or DEFAULT)
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
        """So many words, the same for the same seed and new for every other."""
        draw = random.Random(seed)  # noqa: S311 (texts, not secrets)
        return " ".join(draw.choice(self.words) for _ in range(count))

    def prompt(self, terms: int, seed: str, system: int = 12, question: int = 16) -> TimedPrompt:
        """A question of `question` words, and for each term a system prompt of `system` words."""
        systems = (self.text(system, f"{seed}, system {i}") for i in range(terms))
        return TimedPrompt(self.text(question, f"{seed}, question"), tuple(systems))

    def engine(self, lanes: int, quantize: str | None = None) -> Engine:
        """An engine over it, which lays out a copy of its weights."""
        return Engine.load(self.model, tokenizer=self.tokenizer, max_lanes=lanes, quantize=quantize)

    @property
    def token_bytes(self) -> int:
        """What the keys and values of a token weigh, where every layer keeps its own."""
        config = self.model.config.get_text_config()
        heads = config.num_attention_heads
        dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        kept = getattr(config, "num_key_value_heads", None) or heads
        return int(2 * config.num_hidden_layers * kept * dim * self.model.dtype.itemsize)

    @property
    def context_length(self) -> int:
        """How many tokens a prompt and its answer have at most."""
        config = self.model.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", None) or CONTEXT)

    def longest(self, *lengths: int) -> int:
        """Tokens of the longest of many prompts of so many words, as `prompt` takes them."""
        prompts = (self.prompt(8, f"longest {i}", *lengths) for i in range(_SAMPLED))
        return max(len(reading) for prompt in prompts for reading in self.readings(prompt))

    def readings(self, prompt: TimedPrompt) -> list[list[int]]:
        """The tokens that each term reads, which a baseline then reads too."""
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
    """A checkpoint with nothing of ours in it, or the same function at the cost of a shape."""
    plain = Placement(device="cpu", dtype=dtype)
    if shape is None:
        return as_stored(name, plain)
    model, tokenizer = as_stored(name, plain, partial(_check_fit, shape=shape))
    return inflate(model, shape.hidden, shape.layers, shape.intermediate), tokenizer


def _check_fit(config: Any, shape: LlamaShape) -> None:
    """Raise ModelError, before weights are read, for what inflating keeps as it is."""
    if shape.vocabulary != config.vocab_size:
        raise ModelError(f"its vocabulary has {config.vocab_size}, not {shape.vocabulary!r} tokens")
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = max(config.num_attention_heads, shape.hidden // dim)
    if shape.heads != heads:
        raise ModelError(f"with hidden {shape.hidden} it has {heads}, not {shape.heads!r} heads")


def _words(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Every token that is a word by itself."""
    texts = (vocabulary.decode([i]).strip() for i in range(vocabulary.size))
    words = tuple(sorted({text for text in texts if text.isascii() and text.isalnum()}))
    least = FEWEST_WORDS - _SPECIAL
    if len(words) < least:
        raise ModelError(
            f"prompts are made of its vocabulary's words, at least {least}, "
            f"but it has {len(words)!r}"
        )
    return words
