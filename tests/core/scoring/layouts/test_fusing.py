"""Fused modules answer as transformers' own do, and stand only where they do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from support.architectures import build
from torch import Tensor, nn

from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.shared_weights import shared_copy
from marith.scoring.language_model.cached_runner import CachedRunner
from marith.scoring.language_model.runner import start_runner
from marith.scoring.layouts.fused_layer import FusedLayer
from marith.scoring.layouts.fused_modules import FusedAttention, FusedMLP, FusedNorm
from marith.scoring.layouts.fusing import fuse
from marith.scoring.layouts.joining import LinearPart, join
from marith.testing import tiny_model, tiny_tokenizer

# How many layers each has of which kind, all of four layers: whole ones, attention, gated MLPs.
FUSED = {
    "llama": (4, 4, 4), "qwen2": (4, 4, 4), "qwen3": (4, 4, 4), "mistral": (4, 4, 4),
    "gemma": (4, 4, 4), "gemma3_text": (4, 4, 4), "granite": (4, 4, 4),
    "falcon_h1": (0, 4, 4),  # a mixer beside the attention
    "smollm3": (3, 3, 4),  # one layer without positions
    "exaone4": (2, 2, 4),  # two layers without positions
    "mixtral": (0, 4, 0),  # experts
    "olmo2": (0, 0, 4),  # norms over all heads
    "phi3": (4, 4, 4),  # one product of its own
    "glm": (0, 0, 4),  # rotates neighbours
    "gpt_oss": (0, 0, 0),
}  # fmt: skip
MOST = {"granite": 6e-6}  # its own code rounds by so much: 5.6e-6 from float64, relative
TEXT = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 3], [9, 8, 7, 6, 5, 4, 3, 2]])


@torch.inference_mode()
def logits(model: Any) -> Tensor:
    out: Tensor = model(input_ids=TEXT, use_cache=False).logits
    return out


def kinds(model: nn.Module) -> Counter[type]:
    return Counter(type(module) for module in model.modules())


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_model_answers_as_before(name: str) -> None:
    model = build(name).eval()
    before = logits(model)
    fuse(model)
    found = kinds(model)
    whole = sum(isinstance(module, FusedLayer) for module in model.modules())
    assert (whole, found[FusedAttention], found[FusedMLP]) == FUSED[name]
    after, size = logits(model), float(before.abs().max())
    assert float((after - before).abs().max()) <= size * MOST.get(name, 2e-6)


def test_passes_by_segments_run_the_fused_modules() -> None:
    model = loader.from_loaded(tiny_model(), tiny_tokenizer(), loader.Placement()).model
    runner = start_runner(model, 28, 128)
    assert isinstance(runner, CachedRunner)
    found = kinds(runner.passes.reader)
    layers = model.config.num_hidden_layers
    assert found[FusedAttention] == found[FusedMLP] == layers
    assert all(isinstance(one, FusedLayer) for one in runner.passes.reader.model.layers)
    assert found[FusedNorm] == 2 * layers + 1


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3_text"])
def test_in_bfloat16_rounding_alone_differs(name: str) -> None:
    model = build(name).eval()
    before, count = logits(model), fuse(build(name).eval())
    short = model.to(torch.bfloat16)
    plain = float((logits(short).float() - before).abs().max())
    assert 0 < fuse(short) <= count
    assert float((logits(short).float() - before).abs().max()) <= 2 * plain


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "exaone4"])
def test_the_states_of_fused_layers_are_found(name: str) -> None:
    model, fused = build(name).eval(), build(name).eval()
    fuse(fused)
    with torch.inference_mode():
        expected, states = (
            one(input_ids=TEXT, use_cache=False, output_hidden_states=True).hidden_states
            for one in (model, fused)
        )
    assert len(states) == len(expected) == 5
    for one, other in zip(states, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-5)


def test_a_fused_model_runs_outside_of_inference_mode() -> None:
    model = build("llama").eval()
    before = logits(model)
    fuse(model)
    torch.testing.assert_close(model(TEXT, use_cache=False).logits, before, atol=1e-5, rtol=1e-5)


def test_a_layer_that_is_given_its_mask_by_place_stays_as_it_is() -> None:
    model = build("llama").eval()
    fuse(model)
    layer = model.model.layers[0]
    with pytest.raises(TypeError):  # and so is refused at the trial: it would lose the mask
        layer(torch.zeros(1, 1, layer.hidden_size), torch.ones(1, 1, 1, 1))


class Swapped(nn.Module):
    """A layer whose MLP reads what its attention reads."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        for name, child in layer.named_children():
            setattr(self, name, child)

    def forward(self, hidden_states: Tensor, **others: Any) -> Tensor:
        normed = self.input_layernorm(hidden_states)
        out = self.self_attn(normed, **others)[0]
        return hidden_states + out + self.mlp(self.post_attention_layernorm(hidden_states))


def test_a_layer_whose_code_differs_stays() -> None:
    model = build("llama").eval()
    model.model.layers[1] = Swapped(model.model.layers[1])
    before = logits(model)
    fuse(model)
    assert [isinstance(one, FusedLayer) for one in model.model.layers] == [True, False, True, True]
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=1e-5)


class Doubled(nn.Module):
    """An attention module whose own code differs."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.__dict__ |= {k: v for k, v in module.__dict__.items() if k != "_modules"}
        self._modules = dict(module._modules)
        self.forward_of = [module.forward]

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        out, shares = self.forward_of[0](*args, **kwargs)
        return 2 * out, shares


def test_a_module_whose_code_differs_stays() -> None:
    model = build("llama").eval()
    layer = model.model.layers[1]
    layer.self_attn = Doubled(layer.self_attn)
    before = logits(model)
    fuse(model)
    assert type(layer.self_attn) is Doubled
    assert kinds(model)[FusedAttention] == 3
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=1e-5)


def test_a_module_with_a_hook_stays() -> None:
    model, seen = build("llama").eval(), []
    layer = model.model.layers[2]
    layer.mlp.register_forward_hook(lambda *_: seen.append(1))
    layer.self_attn.q_proj.register_forward_hook(lambda *_: seen.append(2))
    fuse(model)
    found = kinds(model)
    assert (found[FusedAttention], found[FusedMLP]) == (3, 3)
    seen.clear()
    logits(model)
    assert sorted(seen) == [1, 2]


def test_a_copy_of_a_fused_model_stands_alone() -> None:
    model = build("llama").eval()
    fuse(model)
    copy = shared_copy(model)
    copy.model.layers[0].self_attn.q_proj = nn.Linear(1, 1)  # as an adapter's tree is changed
    assert type(model.model.layers[0].self_attn.q_proj) is LinearPart
    logits(model)


@pytest.mark.parametrize("bias", [True, False])
def test_parts_of_a_product_are_the_layers_that_they_replace(bias: bool) -> None:
    linears = [nn.Linear(8, size, bias=bias) for size in (3, 5, 4)]
    parts, x = join(linears), torch.randn(2, 8)
    for linear, part in zip(linears, parts, strict=True):
        torch.testing.assert_close(part(x), linear(x))
        assert torch.equal(part.weight, linear.weight)
        assert (part.bias is None) == (not bias)
    torch.testing.assert_close(parts[1](2 * x), linears[1](2 * x))  # another tensor meanwhile
    torch.testing.assert_close(parts[2](x), linears[2](x))
    assert parts[0].joint._known is None  # nothing of a pass is kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_that_adds_up_in_another_way_keeps_its_code(dtype: torch.dtype) -> None:
    model = tiny_model().to(dtype)

    # mypy takes no class that is known only when it runs for a base.
    class Scaled(type(model.model.layers[0])):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Tensor:
            out: Tensor = super().forward(*args, **kwargs)
            return out * 1.001  # which bfloat16 rounds away

    model.model.layers[1].__class__ = Scaled
    fuse(model)
    assert [isinstance(layer, FusedLayer) for layer in model.model.layers] == [True, False]
