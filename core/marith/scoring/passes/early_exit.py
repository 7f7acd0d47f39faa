"""What a model would say if it stopped after some of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from marith.errors import ModelError, RequestError
from marith.scoring.weights.placing import main_device

NORMS = ("norm", "ln_f", "final_layernorm", "final_layer_norm", "final_norm")


class Exits:
    """Early exits of one causal model: a layer's states through the model's last norm and head.

    That is the model cut after so many layers (the logit lens). DoLa (Chuang et al., 2024) reads
    the head without the norm. Raises ModelError for a model whose end is another one.
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
            raise ModelError(f"exit_layer needs a model that ends in a norm and a head; {kind} not")

    def check(self, layer: int) -> None:
        """Raises RequestError for a layer that the model has not, or that is its last."""
        if layer >= self.layers:
            raise RequestError(
                f"exit_layer is below the {self.layers} layers of the model, not {layer!r}"
            )

    def logits(self, states: Sequence[Tensor], layer: int, kept: slice | Tensor) -> Tensor:
        """Logits [rows, count, vocab] of some positions; `states` are those of all layers."""
        logits: Tensor = self._head(self._norm(states[layer][:, kept]))  # type: ignore[misc]
        return logits

    @torch.inference_mode()
    def _is_end(self, model: Any, norm: nn.Module) -> bool:
        """Whether the model's own logits are its head over its last norm, and nothing besides."""
        normed: list[Tensor] = []
        hook = norm.register_forward_hook(lambda _module, _inputs, out: normed.append(out))
        try:
            text = torch.tensor([[0, 1, 2]], device=main_device(model))
            out = model(input_ids=text, use_cache=False)
        finally:
            hook.remove()
        logits = out.logits.float()
        ends = [one for one in normed if isinstance(one, Tensor) and one.shape[:2] == text.shape]
        # Any of them: meanwhile the engine's thread may run a pass of its own.
        return any(torch.allclose(self._head(end).float(), logits, atol=1e-2) for end in ends)
