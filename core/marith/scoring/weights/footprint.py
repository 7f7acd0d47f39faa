"""What a model takes in memory, as its files say before it is loaded; bytes as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}  # bytes of a number
_LAYERS = "num_hidden_layers", "n_layer", "num_layers"
_HEADS = "num_attention_heads", "n_head", "num_heads"
_WIDTH = "hidden_size", "n_embd", "d_model"
_STATES = {"mamba", "mamba2", "rwkv", "falcon_mamba", "xlstm", "recurrent_gemma"}


@dataclass(frozen=True, slots=True)
class Footprint:
    """How many weights a model has, of which `embedding` are those of the words.

    `token` is how many numbers its layers keep of each token, at most; None where the files do not
    say, or where it keeps a state instead.
    """

    weights: int
    embedding: int = 0
    tied: bool = False
    token: int | None = None

    @classmethod
    def of(cls, weights: int, config: Mapping[str, Any]) -> Footprint:
        """That of a model with so many weights, by its configuration as transformers writes it."""
        text = config.get("text_config")
        stated = text if isinstance(text, Mapping) else config
        words, width = stated.get("vocab_size"), _number(stated, _WIDTH)
        embedding = words * width if isinstance(words, int) and width else 0
        tied = bool(stated.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
        classes = config.get("architectures") or ()
        tied = tied and not any("Classification" in str(one) for one in classes)  # of another head
        return cls(weights, min(embedding, weights), tied, _kept(stated))

    def nbytes(self, dtype: str, *, packed: bool = True) -> int:
        """What the weights take.

        `packed` is for a CPU, where a head that is tied to the words is a copy in another order.
        """
        size = SIZES.get(dtype.removeprefix("torch."), 4)
        return (self.weights + (self.embedding if packed and self.tied else 0)) * size

    def token_bytes(self, dtype: str) -> int | None:
        """What the keys and values of a token take."""
        size = SIZES.get(dtype.removeprefix("torch."), 4)
        return None if self.token is None else self.token * size

    def choices(self, *, packed: bool = True) -> Iterator[tuple[str, int]]:
        """The ways to load it with the bytes that each takes, the most exact first."""
        for dtype in ("float32", "bfloat16"):
            yield f"dtype={dtype!r}", self.nbytes(dtype, packed=packed)


def room_for_texts(token_bytes: int | None, context: int, free: int) -> str:
    """Say what texts take, and how many lanes of a whole context half of the free memory holds."""
    if not token_bytes:
        return ""
    taken = f", 1,000 tokens of a lane take {amount(1000 * token_bytes)}"
    lanes = max(0, free) // 2 // (token_bytes * context)  # an engine takes half of it
    return f"{taken}, and {lanes:,} lanes of {context:,} fit"


def _kept(config: Mapping[str, Any]) -> int | None:
    """Numbers that all layers keep of a token: keys and values of each head that has its own."""
    layers, heads, width = (_number(config, names) for names in (_LAYERS, _HEADS, _WIDTH))
    if not layers or not heads or not width or config.get("model_type") in _STATES:
        return None
    own = _number(config, ("num_key_value_heads", "num_kv_heads")) or heads
    head = _number(config, ("head_dim",)) or width // heads
    return 2 * layers * own * head


def _number(config: Mapping[str, Any], names: Sequence[str]) -> int | None:
    found = (config.get(name) for name in names)
    return next((one for one in found if isinstance(one, int) and one > 0), None)


def amount(size: int | None) -> str:
    """A number of bytes in the unit that suits it; "-" where it is not known."""
    if size is None:
        return "-"
    number, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while number >= 999.5 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.0f} {units[0]}" if number >= 10 else f"{number:.2g} {units[0]}"
