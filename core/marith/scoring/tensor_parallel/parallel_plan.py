"""How a model's layers are cut in parts: by the plan that transformers has for its kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from marith.errors import ModelError
from marith.scoring.checkpoints.locate import GGUF
from marith.scoring.rotary.rotary_scaling import rotary_scaling
from marith.scoring.tensor_parallel.process_group import process_group


def in_parts(name: str, config: Any) -> dict[str, Any]:
    """What tells transformers to load this process's part of a model.

    Raises ModelError for a model without a plan, and for one that has no equal parts.
    """
    size, text = process_group().size, config.get_text_config()
    if rotary_scaling(config).first is not None:
        raise ModelError(
            f"the rotary frequencies of {name!r} depend on the length of each text, and "
            "device='tp' computes them for all texts alike; write device='auto'"
        )
    if not getattr(text, "base_model_tp_plan", None):
        kind = getattr(config, "model_type", "")
        raise ModelError(
            f"transformers has no plan that cuts {name!r} ({kind}) in parts; "
            "write device='auto' to place whole layers"
        )
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    if heads % size:
        raise ModelError(
            f"{name!r} has {heads} heads of keys and values, which {size} processes cannot share "
            f"equally; start as many as divide {heads}"
        )
    return {"distributed_config": _configuration(size)}


def _configuration(size: int) -> Any:
    try:
        made = import_module("transformers.distributed").DistributedConfig(tp_size=size)
    except (AttributeError, ImportError, TypeError):  # it is younger than the oldest release
        needed = "`pip install --upgrade transformers`"
        raise ModelError(f"device='tp' needs a newer transformers: {needed}") from None
    return made


def require_floats(name: str, quantised: bool) -> None:
    """Raises ModelError for a checkpoint of few bits, whose weights have no parts."""
    if quantised:
        raise ModelError(
            f"device='tp' cuts weights in parts, and {name!r} is quantised; write device='auto'"
        )


def require_safetensors(name: str, where: str) -> None:
    """Raises ModelError for a GGUF file, whose weights are read whole."""
    if where.lower().endswith(GGUF):
        raise ModelError(
            f"device='tp' reads safetensors, and {name!r} is a GGUF file; write "
            "backend='llama.cpp', which computes it on all GPUs"
        )
