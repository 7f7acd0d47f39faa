"""Checkpoints whose weights are quantised already: which library computes them, and where."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from marith.errors import ModelError


@dataclass(frozen=True, slots=True)
class _Method:
    """The packages that a method needs, by the names one imports and installs them by.

    `only` is the one kind of device that computes it, if there is only one; `unpacked` says that
    on a CPU transformers makes floats of it, since no kernel of its own runs there.
    """

    packages: Mapping[str, str]
    only: str | None = None
    unpacked: bool = False


_GPTQ = {"gptqmodel": "gptqmodel", "optimum": "optimum"}
_METHODS = {
    "bitsandbytes": _Method({"bitsandbytes": "bitsandbytes"}),
    "torchao": _Method({"torchao": "torchao"}),
    "compressed-tensors": _Method({"compressed_tensors": "compressed-tensors"}),
    "gptq": _Method(_GPTQ),
    "awq": _Method({"gptqmodel": "gptqmodel"}),
    "hqq": _Method({"hqq": "hqq"}),
    "quanto": _Method({"optimum.quanto": "optimum-quanto"}),
    "auto-round": _Method({"auto_round": "auto-round"}),
    "fp8": _Method({}, unpacked=True),
    "mxfp8": _Method({}, unpacked=True),
    "mxfp4": _Method({}, unpacked=True),
    "fbgemm_fp8": _Method({"fbgemm_gpu": "fbgemm-gpu"}, only="cuda"),
    "eetq": _Method({"eetq": "eetq"}, only="cuda"),
    "aqlm": _Method({"aqlm": "aqlm"}),
    "bitnet": _Method({}),
}
_PLACED = {"accelerate": "accelerate"}  # what puts quantised weights on a device


@dataclass(frozen=True, slots=True)
class Quantised:
    """How a checkpoint is quantised, and whether it is floats once it is loaded."""

    method: str
    unpacked: bool


def quantised(name: str, config: Mapping[str, Any], device: torch.device) -> Quantised | None:
    """How the weights of a configuration, as its file has it, are quantised; None if they are not.

    Raises ModelError for what cannot be computed here, and names what is missing.
    """
    stated = config.get("quantization_config")
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise ModelError(
            f"the quantization_config of {name!r} is a JSON object, not {stated!r:.60}"
        )
    method = str(stated.get("quant_method") or _by_flags(stated))
    known = _METHODS.get(method)
    if known is None:
        raise ModelError(
            f"{name!r} is quantised by {method!r}, which marith does not know; it reads "
            f"{', '.join(_METHODS)}"
        )
    needed = {**known.packages, **_PLACED}
    missing = [pip for module, pip in needed.items() if not _is_here(module)]
    if missing:
        raise ModelError(
            f"{name!r} is quantised by {method}; reading it needs `pip install {' '.join(missing)}`"
        )
    if known.only not in (None, device.type):
        raise ModelError(
            f"{name!r} is quantised by {method}, which computes on {known.only} alone, not on "
            f"{str(device)!r}"
        )
    if method == "bitsandbytes" and device.type == "cpu":  # it says of each product that it casts
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    return Quantised(method, known.unpacked and device.type == "cpu")


def _by_flags(stated: Mapping[str, Any]) -> str | None:
    """Older checkpoints of bitsandbytes do not name it."""
    return "bitsandbytes" if {"load_in_8bit", "load_in_4bit"} & stated.keys() else None


def _is_here(module: str) -> bool:
    """Whether a package is installed, one inside another included."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
