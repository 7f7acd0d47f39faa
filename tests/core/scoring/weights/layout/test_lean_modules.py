"""Lean modules answer as transformers' own do, and stand only for the classes that are listed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from support.architectures import build
from torch import Tensor, nn

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.weights import loader
from marith.scoring.weights.layout.lean_modules import (
    LeanAttention,
    LeanMLP,
    LeanNorm,
    LinearPart,
    join,
    make_lean,
    together,
)
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

# Attention modules, gated MLPs and norms that are lean, in models of four layers.
LEAN = {
    "llama": (4, 4, 9), "mistral": (4, 4, 9), "ministral": (4, 4, 9), "mixtral": (4, 0, 9),
    "qwen2": (4, 4, 9), "qwen3": (4, 4, 17), "qwen3_moe": (4, 0, 17), "granite": (4, 4, 9),
    "gemma3_text": (4, 4, 25), "gemma2": (0, 4, 17), "smollm3": (0, 4, 9), "olmo2": (0, 4, 0),
    "phi3": (0, 0, 9), "glm": (0, 0, 0), "gpt_oss": (0, 0, 0),
}  # fmt: skip
MOST = {"granite": 6e-6}  # its own code rounds by so much: 5.6e-6 from float64, relative
TEXT = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 3], [9, 8, 7, 6, 5, 4, 3, 2]])


@torch.inference_mode()
def logits(model: Any) -> Tensor:
    out: Tensor = model(input_ids=TEXT, use_cache=False).logits
    return out


def counts(model: nn.Module) -> tuple[int, ...]:
    """How many attention modules, MLPs and norms are lean."""
    kinds = (LeanAttention, LeanMLP, LeanNorm)
    return tuple(sum(isinstance(one, kind) for one in model.modules()) for kind in kinds)


@pytest.mark.parametrize("name", LEAN)
def test_a_lean_model_answers_as_before(name: str) -> None:
    model = build(name).eval()
    before = logits(model)
    make_lean(model)
    assert counts(model) == LEAN[name]
    after, size = logits(model), float(before.abs().max())
    assert float((after - before).abs().max()) <= size * MOST.get(name, 2e-6)


def test_passes_of_models_and_of_classifiers_run_the_lean_modules(tmp_path: Path) -> None:
    model = loader.from_loaded(tiny_model(), tiny_tokenizer(), loader.Placement()).model
    runner = start_runner(model, 28, 128)
    assert isinstance(runner, CachedRunner)
    layers = model.config.num_hidden_layers
    assert counts(runner.passes.reader) == (layers, layers, 2 * layers + 1)
    tiny_classifier().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    judge = loader.classifier(str(tmp_path), loader.Placement("cpu")).model
    assert counts(judge) == (layers, layers, 2 * layers + 1)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3_text"])
def test_in_bfloat16_only_rounding_differs(name: str) -> None:
    model = build(name).eval()
    before = logits(model)
    short = model.to(torch.bfloat16)
    plain = float((logits(short).float() - before).abs().max())
    make_lean(short)
    assert counts(short)[0] == 4
    assert float((logits(short).float() - before).abs().max()) <= 2 * plain


def test_a_lean_model_runs_outside_of_inference_mode() -> None:
    model = build("llama").eval()
    before = logits(model)
    make_lean(model)
    torch.testing.assert_close(model(TEXT, use_cache=False).logits, before, atol=1e-5, rtol=1e-5)


def test_a_hook_and_a_forward_of_the_callers_stay() -> None:
    model, seen = build("llama").eval(), list[str]()
    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    first.register_forward_hook(lambda *_: seen.append("hook"))
    first.q_proj.register_forward_hook(lambda *_: seen.append("hook of a part"))
    own = second.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        seen.append("forward")
        return own(*args, **kwargs)

    second.forward = forward
    before = logits(model)
    make_lean(model)
    seen.clear()
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=1e-5)
    assert sorted(seen) == ["forward", "hook", "hook of a part"]


def test_a_class_that_extends_a_listed_one_keeps_its_code() -> None:
    model = build("llama").eval()
    attention = model.model.layers[0].self_attn

    class Doubled(type(attention)):  # type: ignore[misc]  # a class that only the model knows
        def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Any]:
            out, shares = super().forward(*args, **kwargs)
            return 2 * out, shares

    attention.__class__ = Doubled
    before = logits(model)
    make_lean(model)
    assert counts(model) == (3, 4, 9)
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=1e-5)


def test_a_copy_of_a_lean_model_stands_alone() -> None:
    model = build("llama").eval()
    make_lean(model)
    before, second = logits(model), copy.deepcopy(model)
    with torch.no_grad():
        for weight in second.parameters():
            weight.zero_()
    assert torch.equal(logits(model), before)


@pytest.mark.parametrize("bias", [True, False])
def test_joined_layers_compute_what_the_single_layers_did(bias: bool) -> None:
    module: Any = nn.Module()
    module.first, module.second = nn.Linear(6, 3, bias=bias), nn.Linear(6, 5, bias=bias)
    plain, x = copy.deepcopy(module), torch.randn(2, 4, 6)
    join(module, ("first", "second"))
    for name in ("second", "first", "first"):  # in any order, and more than once
        part, layer = getattr(module, name), getattr(plain, name)
        assert isinstance(part, LinearPart)
        assert torch.equal(part.weight, layer.weight)
        torch.testing.assert_close(part(x), layer(x))
    expected = torch.cat([plain.first(x), plain.second(x)], dim=-1)
    torch.testing.assert_close(together(x, (module.first, module.second)), expected)


def test_layers_that_are_unlike_each_other_are_not_joined() -> None:
    module: Any = nn.Module()
    module.first, module.second = nn.Linear(6, 3), nn.Linear(6, 5, bias=False)
    join(module, ("first", "second"))
    assert type(module.first) is type(module.second) is nn.Linear
