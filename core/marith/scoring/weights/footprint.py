"""Estimate the memory of a model from its files, before it is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marith.scoring.free_memory import bytes_text

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}  # bytes of an element
_LAYERS = "num_hidden_layers", "n_layer", "num_layers"
_HEADS = "num_attention_heads", "n_head", "num_heads"
_WIDTH = "hidden_size", "n_embd", "d_model"
_STATES = {"mamba", "mamba2", "rwkv", "falcon_mamba", "xlstm", "recurrent_gemma"}


@dataclass(frozen=True, slots=True)
class Footprint:
    """The numbers that decide how much memory a model takes.

    `weights` is the number of its weights, and `embedding` is the number of weights of the token
    embedding. `tied` is True if the head shares the weights of the embedding. `token` is an upper
    bound on how many numbers all layers together cache for each token. It is None if the files do
    not state it, or if the model keeps a state instead.
    """

    weights: int
    embedding: int = 0
    tied: bool = False
    token: int | None = None

    @classmethod
    def of(cls, weights: int, config: Mapping[str, Any]) -> Footprint:
        """Return the footprint of a model with `weights` weights.

        `config` is the model's configuration in the form of transformers.
        """
        text = config.get("text_config")
        stated = text if isinstance(text, Mapping) else config
        words, width = stated.get("vocab_size"), _number(stated, _WIDTH)
        embedding = words * width if isinstance(words, int) and width else 0
        tied = bool(stated.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
        classes = config.get("architectures") or ()
        # The head of a classifier is not tied.
        tied = tied and not any("Classification" in str(one) for one in classes)
        return cls(weights, min(embedding, weights), tied, _kept(stated))

    def nbytes(self, dtype: str, *, packed: bool = True) -> int:
        """Return the bytes that the weights take.

        If `packed` is True, as on a CPU, a head that is tied to the embedding counts again, because
        it is a copy in another layout.
        """
        size = SIZES.get(dtype.removeprefix("torch."), 4)
        return (self.weights + (self.embedding if packed and self.tied else 0)) * size

    def token_bytes(self, dtype: str) -> int | None:
        """Return the bytes of a token's keys and values; None if unknown."""
        size = SIZES.get(dtype.removeprefix("torch."), 4)
        return None if self.token is None else self.token * size

    def choices(self, *, packed: bool = True) -> Iterator[tuple[str, int]]:
        """Yield the options for loading the model, each with its bytes, the most exact first."""
        for dtype in ("float32", "bfloat16"):
            yield f"dtype={dtype!r}", self.nbytes(dtype, packed=packed)


def room_for_texts(token_bytes: int | None, context: int, free: int) -> str:
    """Return a phrase on the memory that 1,000 tokens take, and on the number of lanes that fit.

    Each lane is as long as `context`, and all lanes together may take half of the `free` bytes.
    Return "" if `token_bytes` is unknown.
    """
    if not token_bytes:
        return ""
    taken = f", 1,000 tokens of a lane take {bytes_text(1000 * token_bytes)}"
    # By default, an engine caches lanes in half of the free memory.
    lanes = max(0, free) // 2 // (token_bytes * context)
    return f"{taken}, and {lanes:,} lanes of {context:,} fit"


def _kept(config: Mapping[str, Any]) -> int | None:
    """Return how many numbers the keys and values of a token have in all layers.

    Heads that share keys and values count once.
    """
    layers, heads, width = (_number(config, names) for names in (_LAYERS, _HEADS, _WIDTH))
    if not layers or not heads or not width or config.get("model_type") in _STATES:
        return None
    own = _number(config, ("num_key_value_heads", "num_kv_heads")) or heads
    head = _number(config, ("head_dim",)) or width // heads
    return 2 * layers * own * head


def _number(config: Mapping[str, Any], names: Sequence[str]) -> int | None:
    found = (config.get(name) for name in names)
    return next((one for one in found if isinstance(one, int) and one > 0), None)
