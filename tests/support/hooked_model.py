"""Random vectors, and transformers alone with a hook after each layer: what vectors must equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from marith.scoring.passes.decoder_layers import decoder_layers
from marith.scoring.weights.control_vectors import ControlVector, steered
from marith.scoring.weights.lora_files import Adapter


def vector(model: Any, seed: int, size: float = 0.5, layers: Sequence[int] = ()) -> ControlVector:
    """Return a random vector of all layers, or of some."""
    text, draw = model.config.get_text_config(), torch.Generator().manual_seed(seed)
    rows = torch.randn(text.num_hidden_layers, text.hidden_size, generator=draw) * size
    chosen = layers or range(text.num_hidden_layers)
    return ControlVector(f"v{seed}", f"{seed} {chosen}", "", {i: rows[i] for i in chosen})


def adapter_of(
    model: Any, *parts: tuple[ControlVector, float], lora: Adapter | None = None, where: Any = "all"
) -> Adapter:
    return steered(lora, parts, where, decoder_layers(model))


@contextmanager
def hooked(
    model: Any, layers: nn.ModuleList, shifts: dict[int, Tensor], start: int
) -> Iterator[None]:
    """Add the shifts after the layers of a plain model, at the positions from `start` on."""

    def hook(number: int) -> Any:
        def add(_module: Any, _inputs: Any, output: Any) -> Any:
            states = output[0] if isinstance(output, tuple) else output
            states = states.clone()
            states[:, start:] += shifts[number].to(states)
            return (states, *output[1:]) if isinstance(output, tuple) else states

        return add

    handles = [layers[number].register_forward_hook(hook(number)) for number in shifts]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.inference_mode()
def by_hooks(
    model: Any, layers: str, text: Sequence[int], adapter: Adapter | None, start: int = 0
) -> Tensor:
    """Return log-probabilities [length, vocab] of transformers alone with hooks, on the CPU."""
    shifts = {
        int(name.rpartition(".")[2]): one
        for name, one in (adapter.shifts if adapter else {}).items()
    }
    with hooked(model, model.get_submodule(layers), shifts, start):
        ids = torch.tensor([list(text)], device=model.device)
        logits = model(ids, use_cache=False).logits[0].float()
    return torch.log_softmax(logits, -1).cpu()
