"""Early exits: the logits of a model that stops after one of its inner layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from marith.errors import ModelError, RequestError
from marith.scoring.weights.placing import main_device

NORMS = ("norm", "ln_f", "final_layernorm", "final_layer_norm", "final_norm")


class Exits:
    """Early exits of a causal model: its last norm and head, applied to an inner layer's states.

    The logits are those of the model without its later layers (the logit lens). DoLa (Chuang et
    al., 2024) applies the head without the norm. Raises ModelError for a model that does not end in
    a norm and a head.
    """

    def __init__(self, model: Any) -> None:
        self.layers = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
        self._head = model.get_output_embeddings()
        base = getattr(model, "base_model", model)
        norms = [m for name in NORMS if isinstance(m := getattr(base, name, None), nn.Module)]
        self._norm = norms[0] if norms else None
        norm = self._norm if self.layers and self._head is not None else None
        if norm is None or not self._is_end(model, norm):
            kind = type(model).__name__
            raise ModelError(
                f"exit_layer needs a model that ends in a norm and a head; {kind} does not"
            )

    def check(self, layer: int) -> None:
        """Raise RequestError if the model has no such layer, or if the layer is its last."""
        if layer >= self.layers:
            raise RequestError(
                f"exit_layer={layer!r} is not an inner layer: write a number below {self.layers}, "
                "the number of layers of the model"
            )

    def logits(self, states: Sequence[Tensor], layer: int, kept: slice | Tensor) -> Tensor:
        """Return the logits [rows, count, vocab] of the `kept` positions after `layer`.

        `states` are the hidden states of all layers.
        """
        logits: Tensor = self._head(self._norm(states[layer][:, kept]))  # type: ignore[misc]
        return logits

    @torch.inference_mode()
    def _is_end(self, model: Any, norm: nn.Module) -> bool:
        """Return True if the model's logits are its head applied to its last norm's output."""
        normed: list[Tensor] = []
        hook = norm.register_forward_hook(lambda _module, _inputs, out: normed.append(out))
        try:
            text = torch.tensor([[0, 1, 2]], device=main_device(model))
            out = model(input_ids=text, use_cache=False)
        finally:
            hook.remove()
        logits = out.logits.float()
        ends = [one for one in normed if isinstance(one, Tensor) and one.shape[:2] == text.shape]
        # The hook may also record a pass of the engine's thread, so any of the outputs may match.
        return any(torch.allclose(self._head(end).float(), logits, atol=1e-2) for end in ends)
