"""A model of transformers from a GGUF file: its tensors, one at a time, as a checkpoint's."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.integrations.gguf.gguf_config_mapping import GGUF_CONFIG_ARCHS
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
    load_gguf_checkpoint,
)

from marith.errors import ModelError
from marith.scoring.checkpoints.gguf.gguf_config import ROTARY_TENSORS
from marith.scoring.checkpoints.gguf.gguf_header import GGUFHeader, StoredTensor

_NEEDED = "gguf"  # the library that knows the formats; an extra of marith's
_NOWHERE: dict[str, Any] = {"tensors": {}}  # where one of transformers' converters puts a head


def require_library(name: str) -> None:
    """Raises ModelError where the package is absent that knows the formats of GGUF."""
    if find_spec(_NEEDED) is None:
        raise ModelError(
            f"{name!r} is a GGUF file, and reading one needs `pip install marith[gguf]`"
        )


def gguf_model(
    name: str, header: GGUFHeader, kind: Any, config: Any, **how: Any
) -> tuple[Any, Mapping[str, Any]]:
    """The model, and transformers' report on its loading.

    `kind` is a class of transformers; `how` goes to its `from_pretrained`. Weights are in floats
    once they are read: memory peaks at the model and one tensor, but for mixtures of experts, whose
    weights transformers reads at once. Raises ModelError for a tensor that no weight takes.
    """
    if header.architecture in GGUF_CONFIG_ARCHS:
        path = Path(header.path)
        loaded: tuple[Any, Mapping[str, Any]]
        loaded = kind.from_pretrained(path.parent, gguf_file=path.name, config=config, **how)
        return loaded
    with torch.device("meta"):
        empty = kind(config)
    processor, names = _processor(header, config), places_of(header, empty)
    _require_places(name, header, names)
    if any(tensor.name.endswith("_exps.weight") for tensor in header.tensors):
        read = load_gguf_checkpoint(header.path, return_tensors=True, model_to_load=empty)
        tensors: dict[str, Any] = read["tensors"]
    else:
        tensors = {
            names[one.name]: _UnreadTensor(header.path, one, processor)
            for one in header.tensors
            if one.name in names
        }
    loaded = kind.from_pretrained(None, config=config, state_dict=tensors, **how)
    return loaded


def places_of(header: GGUFHeader, empty: Any) -> dict[str, str]:
    """The weight of an empty model for the name of each tensor that a file may have."""
    named = get_gguf_hf_weights_map(empty, _processor(header, empty.config))
    return {"output.weight": "lm_head.weight", **named}


def _processor(header: GGUFHeader, config: Any) -> TensorProcessor:
    kind: Any = TENSOR_PROCESSORS.get(header.architecture, TensorProcessor)
    made: TensorProcessor = kind(config.to_dict())
    return made


class _UnreadTensor:
    """A tensor of the file, which is read and brought into floats when it is indexed."""

    def __init__(self, path: str, stored: StoredTensor, processor: TensorProcessor) -> None:
        self._path, self._stored, self._processor = path, stored, processor

    def __getitem__(self, _: object) -> Tensor:
        quants, stored = import_module("gguf.quants"), self._stored
        kinds = import_module("gguf").GGMLQuantizationType
        if stored.kind not in kinds.__members__:
            raise ModelError(
                f"the tensor {stored.name!r} is stored as {stored.kind}, which the installed gguf "
                "does not read; backend='llama.cpp' may"
            )
        kind = kinds[stored.kind]
        shape = quants.quant_shape_to_byte_shape(stored.shape, kind)
        data = np.memmap(self._path, np.uint8, "r", stored.start, shape)
        values = quants.dequantize(data, kind)
        values = self._processor.process(values, stored.name, parsed_parameters=_NOWHERE).weights
        mapped = not values.flags.writeable  # the file itself, which a model must not depend on
        return torch.from_numpy(values.copy() if mapped else np.ascontiguousarray(values))


def _require_places(name: str, header: GGUFHeader, names: Mapping[str, str]) -> None:
    held = {tensor.name for tensor in header.tensors} - ROTARY_TENSORS
    without = sorted(one for one in held if one not in names and not one.endswith("_exps.weight"))
    if without:
        raise ModelError(
            f"{name!r} has a tensor {without[0]!r} that transformers has no place for; "
            "backend='llama.cpp' reads the file as llama.cpp does"
        )
