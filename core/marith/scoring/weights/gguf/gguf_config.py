"""Convert a GGUF file's metadata to a configuration of transformers, with rotary scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import CONFIG_MAPPING
from transformers.integrations.ggml import GGUF_CONFIG_DEFAULTS_MAPPING, GGUF_CONFIG_MAPPING
from transformers.integrations.gguf.gguf_config_mapping import GGUF_CONFIG_ARCHS, get_gguf_config

from marith.errors import ModelError, shown
from marith.scoring.notices import warn
from marith.scoring.weights.gguf.gguf_header import GGUFHeader
from marith.scoring.weights.kinds import raising_model_error

FREQUENCIES = "rope_freqs.weight"
SHORT, LONG = "rope_factors_short.weight", "rope_factors_long.weight"
ROTARY_TENSORS = {FREQUENCIES, SHORT, LONG}
# A file does not say whether its model is the one of 27 billion weights, but it states its
# number of layers, by which this model is recognised.
_LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}
_UNREAD = {"t5", "umt5", "tokenizer", "general", "minimax_m2"}
# The names of these architectures in files differ from the names in transformers.
_KINDS = {
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "gpt-oss": "gpt_oss",
}
# Models of these types have a part that reads images. A file has only the part that reads text.
_TEXT_KINDS = {"gemma3": "gemma3_text", "gemma4": "gemma4_text"}
# The heads of these models are tied to the embedding, although their files have a head.
_TIED = {"falcon", "bloom"}
# These keys give no warning, because shapes imply their values, or `_scale_rotary` reads them.
_SAID = (
    "attention.key_length",
    "attention.value_length",
    "rope.",
    "vocab_size",
    "attention.causal",
)


def gguf_config(name: str, header: GGUFHeader) -> Any:
    """Return the configuration of the model in a GGUF file.

    Raises ModelError for an architecture that transformers cannot read from GGUF files, and for a
    model in several files.
    """
    architecture = header.architecture
    if architecture not in _architectures():
        raise ModelError(
            f"{name!r} has the architecture {shown(architecture)}; from GGUF files, transformers "
            f"reads {', '.join(_architectures())}, and backend='llama.cpp' reads most others"
        )
    if header.parts > 1:
        raise ModelError(
            f"{name!r} is one of {header.parts} files; `llama-gguf-split --merge` joins them, "
            "and backend='llama.cpp' reads them as they are"
        )
    with raising_model_error(f"cannot read the configuration of {name!r}"):
        stated = _stated(header)
        config = CONFIG_MAPPING[stated["model_type"]].from_dict(stated)
    _state(header, config.get_text_config())
    _scale_rotary(name, header, config)
    _say_what_is_not_read(name, header)
    return config


def _architectures() -> list[str]:
    """Return the names in GGUF files of the language models that transformers reads."""
    written = {kind: name for name, kind in _KINDS.items()}
    names = {*GGUF_CONFIG_MAPPING, *GGUF_CONFIG_ARCHS} - _UNREAD
    return sorted({written.get(one, one) for one in names})


def _stated(header: GGUFHeader) -> dict[str, Any]:
    """Return the values that the file states, by transformers' names."""
    architecture, names = header.architecture, {tensor.name for tensor in header.tensors}
    if architecture in GGUF_CONFIG_ARCHS:
        return get_gguf_config(dict(header.metadata), tuple(names))
    kind = _KINDS.get(architecture, architecture)
    mapping: Any = GGUF_CONFIG_MAPPING
    stated: dict[str, Any] = dict(GGUF_CONFIG_DEFAULTS_MAPPING.get(kind, {}))
    stated["vocab_size"] = header.metadata.get("tokenizer.ggml.tokens")
    for key, its_name in mapping[kind].items():
        value = header.of_model(key)
        if its_name and value is not None:
            one = isinstance(value, list) and len(value) == 1
            stated[its_name] = value[0] if one else value
    if kind == "stablelm":
        stated["use_qkv_bias"] = any(".attn_q.bias" in name for name in names)
        stated["use_parallel_residual"] = not any("ffn_norm" in name for name in names)
    stated["tie_word_embeddings"] = architecture in _TIED or "output.weight" not in names
    return {key: one for key, one in stated.items() if one is not None} | {
        "model_type": _TEXT_KINDS.get(kind, kind)
    }


def _state(header: GGUFHeader, config: Any) -> None:
    """Set the values that the file states but transformers leaves at the defaults of its class."""
    for kind in ("bos", "eos", "pad"):
        name = "padding" if kind == "pad" else kind
        number = header.metadata.get(f"tokenizer.ggml.{name}_token_id")
        setattr(config, f"{kind}_token_id", number)
    if positions := header.of_model("context_length"):
        config.max_position_embeddings = positions
    head = header.of_model("attention.key_length")
    if head and hasattr(config, "head_dim"):
        config.head_dim = head
    # Gemma scales its queries by this number, which no file states. llama.cpp has the same rule.
    if hasattr(config, "query_pre_attn_scalar"):
        wide = config.hidden_size // config.num_attention_heads
        largest = config.num_hidden_layers == _LAYERS_OF_27B.get(header.architecture)
        config.query_pre_attn_scalar = wide if largest else config.head_dim


def _scale_rotary(name: str, header: GGUFHeader, config: Any) -> None:
    """Set rotary scaling, which transformers does not read from most files.

    llama.cpp stores the scaling of Llama 3 as a tensor of factors that divide the frequencies.
    "longrope" with these factors for texts of any length is the same function.
    """
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None)
    if isinstance(rope, dict) and isinstance(rope.get("full_attention"), dict):
        # Layers with windows are never scaled.
        rope = rope["full_attention"]
    if not isinstance(rope, dict) or rope.get("rope_type", "default") != "default":
        return
    kind = header.of_model("rope.scaling.type", "none")
    factor = header.of_model("rope.scaling.factor")
    original = header.of_model("rope.scaling.original_context_length")
    tensors = {one.name: one for one in header.tensors}
    if FREQUENCIES in tensors:
        factors = _values(header, FREQUENCIES)
        rope |= _longrope(factors, factors, text.max_position_embeddings, 1.0)
    elif LONG in tensors:
        attention = header.of_model("rope.scaling.attn_factor")
        short, long = _values(header, SHORT), _values(header, LONG)
        rope |= _longrope(short, long, original or text.max_position_embeddings, attention)
        rope["factor"] = text.max_position_embeddings / rope["original_max_position_embeddings"]
    elif kind == "linear":
        rope |= {"rope_type": kind, "factor": factor}
    elif kind == "yarn":
        rope |= {"rope_type": kind, "factor": factor, "original_max_position_embeddings": original}
    elif kind != "none":
        raise ModelError(
            f"{name!r} scales its rotary frequencies as {kind!r}, which transformers does "
            "not read from GGUF files; load it with backend='llama.cpp'"
        )


def _longrope(short: list[float], long: list[float], original: int, scale: Any) -> dict[str, Any]:
    made = {
        "rope_type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": original,
        "factor": 1.0,
    }
    return made if scale is None else made | {"attention_factor": scale}


def _values(header: GGUFHeader, name: str) -> list[float]:
    """Return the numbers of a small tensor. Raises ModelError if it is absent or not in float32."""
    tensor = next((one for one in header.tensors if one.name == name), None)
    if tensor is None or tensor.kind != "F32":
        raise ModelError(f"{header.path!r} has no {name} in float32")
    with open(header.path, "rb") as file:
        values = np.fromfile(file, dtype="<f4", count=tensor.size, offset=tensor.start)
    return [float(one) for one in values]


def _say_what_is_not_read(name: str, header: GGUFHeader) -> None:
    """Warn of values that the file states about its model and that transformers does not read."""
    architecture = header.architecture
    if architecture in GGUF_CONFIG_ARCHS:
        return
    mapping: Any = GGUF_CONFIG_MAPPING
    known = mapping[_KINDS.get(architecture, architecture)]
    start = f"{architecture}."
    values = header.metadata.items()
    stated = [key.removeprefix(start) for key, one in values if key.startswith(start) and one]
    unread = [key for key in stated if key not in known and not key.startswith(_SAID)]
    if unread:
        warn(f"{name!r} states {', '.join(unread)}, which transformers ignores in GGUF files")
