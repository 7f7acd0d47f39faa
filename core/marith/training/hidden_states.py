"""Hidden states: what each decoder layer of a model adds up to, at the tokens of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from marith.scoring.passes.decoder_layers import decoder_layers, hidden_states
from marith.scoring.weights.placing import main_device

Take: TypeAlias = Callable[[int, Tensor], None]


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as tokens. The states of the tokens from `start` on are read."""

    tokens: Sequence[int]
    start: int


class HiddenStates:
    """The hidden states of a causal language model after each of its decoder layers.

    The state of a token depends on no later token, so it is the last state of the text that ends
    with this token: one pass reads every cut of a text. `width` is the number of values of a state.
    Raises ModelError for a model whose decoder layers cannot be found.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.base_model
        self.width = int(model.config.get_text_config().hidden_size)
        self._layers = [model.get_submodule(name) for name in decoder_layers(model)]

    @property
    def layers(self) -> int:
        """The number of decoder layers."""
        return len(self._layers)

    @torch.inference_mode()
    def read(self, readings: Sequence[Reading], size: int, take: Take) -> Iterator[int]:
        """Read `size` texts in a pass, and yield the number of texts after each pass.

        `take` receives the number of a layer, and its states [tokens, width] in float64.
        """
        # Texts of similar lengths have little padding.
        ordered = sorted(readings, key=lambda one: len(one.tokens))
        device = main_device(self._model)
        for begin in range(0, len(ordered), size):
            batch = ordered[begin : begin + size]
            longest = max(len(one.tokens) for one in batch)
            # Padding comes last, where no token of a text sees it.
            rows = [[*one.tokens, *[0] * (longest - len(one.tokens))] for one in batch]
            mask = [[int(i < len(one.tokens)) for i in range(longest)] for one in batch]
            kept = [[one.start <= i < len(one.tokens) for i in range(longest)] for one in batch]
            with self._taking(torch.tensor(kept), take):
                self._model(
                    input_ids=torch.tensor(rows, device=device),
                    attention_mask=torch.tensor(mask, device=device),
                    use_cache=False,
                )
            yield len(batch)

    @contextmanager
    def _taking(self, kept: Tensor, take: Take) -> Iterator[None]:
        """Call `take` with the kept states of each layer while the model reads."""

        def hook(layer: int) -> Callable[[nn.Module, Any, Any], None]:
            def on_output(_module: nn.Module, _inputs: Any, output: Any) -> None:
                states = hidden_states(output)
                assert states is not None, "decoder_layers returns only layers with hidden states"
                take(layer, states[kept.to(states.device)].cpu().double())

            return on_output

        hooks = [one.register_forward_hook(hook(i)) for i, one in enumerate(self._layers)]
        try:
            yield
        finally:
            for one in hooks:
                one.remove()
