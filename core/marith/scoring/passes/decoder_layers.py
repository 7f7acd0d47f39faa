"""Find the decoder layers of a model, whatever its architecture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from marith.errors import ModelError
from marith.scoring.weights.placing import main_device
from marith.scoring.weights.shared_weights import independent, nbytes


@torch.inference_mode()
def decoder_layers(model: Any) -> tuple[str, ...]:
    """Return the names of a model's decoder layers, in the order in which they are counted.

    They are the elements of the list of `num_hidden_layers` modules that return a hidden state for
    each token; of several such lists, the one with the most weights. The model runs once. Raises
    ModelError if there is no such list.
    """
    text = model.config.get_text_config()
    count, width = getattr(text, "num_hidden_layers", 0), getattr(text, "hidden_size", 0)
    tree = independent(model)
    lists = {
        name: module
        for name, module in tree.named_modules()
        if isinstance(module, nn.ModuleList) and 0 < len({*map(id, module)}) == len(module) == count
    }
    shapes: dict[nn.Module, list[tuple[int, ...]]] = defaultdict(list)
    for layer in (layer for layers in lists.values() for layer in layers):
        layer.register_forward_hook(_noting(shapes))
    ids = torch.tensor([[0, 1, 2], [2, 1, 0]], device=main_device(model))
    tree(input_ids=ids, use_cache=False)
    fit = {
        name: layers
        for name, layers in lists.items()
        if all(shapes[layer] == [(*ids.shape, width)] for layer in layers)
    }
    if not fit:
        raise ModelError(
            f"vectors need decoder layers that return one hidden state for each token; "
            f"{type(model).__name__} has none that can be found"
        )
    name = max(fit, key=lambda name: nbytes(fit[name].parameters()))
    return tuple(f"{name}.{i}" for i in range(count))


def hidden_states(output: Any) -> Tensor | None:
    """Return the hidden states in the output of a decoder layer, or None for another output."""
    # A named tuple is not rebuilt from its elements, so its hidden states are not replaced.
    first = output[0] if type(output) is tuple and output else output
    return first if isinstance(first, Tensor) else None


def _noting(shapes: dict[nn.Module, list[tuple[int, ...]]]) -> Callable[..., None]:
    """Return a hook that notes the shape of a layer's hidden states."""

    def note(layer: nn.Module, _inputs: Any, output: Any) -> None:
        states = hidden_states(output)
        shapes[layer].append(() if states is None else tuple(states.shape))

    return note
