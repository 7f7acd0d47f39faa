"""Recognise checkpoints with quantised weights, which transformers loads with other libraries."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from marith.errors import ModelError

_BITSANDBYTES = "bitsandbytes"
# On a CPU, transformers converts weights of these methods to floats, as it has no kernel for them.
_UNPACKED = {"fp8", "mxfp8", "mxfp4"}


@dataclass(frozen=True, slots=True)
class Quantised:
    """The method by which a checkpoint is quantised, and whether it is loaded as floats."""

    method: str
    unpacked: bool


def quantised(name: str, config: Mapping[str, Any], device: torch.device) -> Quantised | None:
    """Return how the weights of a configuration are quantised, or None. `config` is parsed JSON.

    Raises ModelError for a method that transformers does not know, because it would read such
    weights as plain weights. For other problems transformers raises while it loads the model.
    """
    stated = config.get("quantization_config")
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise ModelError(
            f"the quantization_config of {name!r} is a JSON object, not {stated!r:.60}"
        )
    # Older checkpoints of bitsandbytes do not name the method.
    by_flags = _BITSANDBYTES if {"load_in_8bit", "load_in_4bit"} & stated.keys() else None
    method = str(stated.get("quant_method") or by_flags)
    known = [_BITSANDBYTES, *AUTO_QUANTIZATION_CONFIG_MAPPING]
    if method not in known:
        raise ModelError(
            f"{name!r} is quantised by {method!r}, which marith does not know; it reads "
            f"{', '.join(known)}"
        )
    # On a CPU, bitsandbytes logs a cast for every product.
    if method == _BITSANDBYTES and device.type == "cpu":
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    return Quantised(method, method in _UNPACKED and device.type == "cpu")
