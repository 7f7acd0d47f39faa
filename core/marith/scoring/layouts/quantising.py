"""Bring a model's linear layers into few bits: those of a loaded one, or while it is loaded."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.core_model_loading import ConversionOps
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from marith.scoring.checkpoints.shared_weights import nbytes, weights
from marith.scoring.layouts.packing import as_linear, is_linear, replace
from marith.scoring.layouts.quantised import FORMATS, Int8Linear, QuantisedLinear

_METHOD = "marith"
_SMALLEST = 2**14  # weights of the largest layer of a module; its others may join that one


def quantise(model: Any, format_name: str) -> None:
    """Bring, in place, what is still in floats and large enough into few bits.

    The head has 8 bits in every format: its errors are errors of log-probabilities. Embeddings and
    norms stay. Memory peaks at the model and one layer.
    """
    head, chosen = model.get_output_embeddings(), _quantisable(model)

    def made(layer: Any) -> QuantisedLinear:
        linear = as_linear(layer)
        return _kind(linear, format_name, layer is head).of(linear)

    replace(model, lambda one: one in chosen, made)


def loading_in(format_name: str) -> QuantizationConfigMixin:
    """What transformers' `from_pretrained` takes to quantise each layer as soon as it is read.

    So memory peaks at the quantised model and one layer. A head that shares the weights of the
    embedding is left to `quantise`.
    """
    return _Format(format_name)


def quantised_share(model: nn.Module) -> float:
    """Which share of a model's bytes is in few bits."""
    inside = [one for one in model.modules() if isinstance(one, QuantisedLinear)]
    few = nbytes(weight for one in inside for weight in (one.weight, one.scales))
    return few / nbytes(weights(model))


def _kind(linear: nn.Linear, format_name: str, is_head: bool) -> type[QuantisedLinear]:
    kind = Int8Linear if is_head else FORMATS[format_name]
    return kind if kind.takes(linear.in_features, linear.out_features) else Int8Linear


def _quantisable(model: nn.Module) -> set[nn.Module]:
    """Its plain linear layers, but for those of modules that have none of some size."""
    found = set[nn.Module]()
    for parent in model.modules():
        layers = [one for one in parent.children() if is_linear(one)]
        if any(one.weight.numel() >= _SMALLEST for one in layers):
            found.update(layers)
    return found


@register_quantization_config(_METHOD)
class _Format(QuantizationConfigMixin):
    def __init__(self, format_name: str, **_: Any) -> None:
        self.quant_method: Any = _METHOD
        self.format_name = format_name


@register_quantizer(_METHOD)
class _Quantiser(HfQuantizer):
    """Replaces layers on the meta device by empty ones, and fills each when its weight is read."""

    quantization_config: Any

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        """Whether it is the weight of a layer that was replaced."""
        path = param_name.removesuffix(".weight")
        return path != param_name and isinstance(model.get_submodule(path), QuantisedLinear)

    def get_quantize_ops(self) -> ConversionOps:
        """What is done to such a weight."""
        return _Quantise()

    def is_serializable(self) -> bool:
        """Never saved."""
        return False

    @property
    def is_trainable(self) -> bool:
        """Never trained."""
        return False

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
        tied = {name.removesuffix(".weight") for name in model.all_tied_weights_keys}
        head, chosen = model.get_output_embeddings(), self.quantization_config.format_name
        whole = _quantisable(model)
        for name, one in [*model.named_modules()]:
            # GPT-2 stores its weights the other way round: those are left to `quantise` too.
            if name not in tied and one in whole and type(one) is nn.Linear:
                model.set_submodule(name, _kind(one, chosen, one is head).of(one))


class _Quantise(ConversionOps):
    @torch.no_grad()
    def convert(
        self,
        input_dict: dict[str, Any],
        source_patterns: list[str],
        target_patterns: list[str],
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The layer's weight and scales, of the weight that a checkpoint holds."""
        [value] = input_dict.values()
        path = kwargs["full_layer_name"].rpartition(".")[0]
        layer = kwargs["model"].get_submodule(path)
        made = layer.quantised(value[0] if isinstance(value, list) else value)
        # As parameters: of others transformers makes some that take gradients.
        return {
            f"{path}.{name}": nn.Parameter(tensor, requires_grad=False)
            for name, tensor in zip(("weight", "scales"), made, strict=True)
        }
