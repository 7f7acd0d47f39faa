"""Make a random LoRA for any model, as files and merged into the model."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from marith.scoring.weights.lora_files import CONFIG, TENSORS, sizes_of

RANK = 2
_KINDS = (nn.Linear, Conv1D)


@torch.inference_mode()
def adaptable(model: Any) -> list[str]:
    """Return the linear layers with inputs [rows, length, inputs], without the head."""
    head, found = model.get_output_embeddings(), dict[str, None]()
    with _watched(model, head, found):
        model(input_ids=torch.arange(10).view(2, 5), use_cache=False)
    return [*found]


@contextmanager
def _watched(model: Any, head: Any, found: dict[str, None]) -> Iterator[None]:
    """Collect in `found` the layers whose inputs all have the shape [2, length, inputs]."""
    refused: set[str] = set()

    def watch(name: str) -> Any:
        def hook(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            fits = inputs[0].dim() == 3 and len(inputs[0]) == 2
            if fits and name not in refused:
                found[name] = None
            elif not fits:
                refused.add(name)
                found.pop(name, None)

        return hook

    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, _KINDS) and m is not head]
    hooks = [module.register_forward_pre_hook(watch(name)) for name, module in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def adapt(model: Any, layers: list[str], folder: Path) -> Any:
    """Write a random adapter of these layers, and return the model with the adapter merged."""
    draw, tensors, merged = torch.Generator().manual_seed(0), {}, copy.deepcopy(model)
    for layer in layers:
        module = merged.get_submodule(layer)
        inputs, outputs = sizes_of(module)
        down = torch.randn(RANK, inputs, generator=draw) * inputs**-0.5
        up = torch.randn(outputs, RANK, generator=draw) * 0.5
        tensors[f"base_model.model.{layer}.lora_A.weight"] = down
        tensors[f"base_model.model.{layer}.lora_B.weight"] = up
        update = up @ down
        update = update.T if isinstance(module, Conv1D) else update
        module.weight = nn.Parameter(module.weight.detach() + update)  # its own: others may share
    folder.mkdir()
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / TENSORS)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "bias": "none"}
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    return merged.eval()
