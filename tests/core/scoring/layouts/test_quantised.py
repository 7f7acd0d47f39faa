"""Layers in few bits: what they compute, alone and among others, and how a model gets them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from marith import Engine, Prompted
from marith.errors import ModelError
from marith.request.checks import QUANTIZED
from marith.scoring.checkpoints.loader import Placement
from marith.scoring.layouts import quantised
from marith.scoring.layouts.fused_layer import FusedLayer
from marith.scoring.layouts.laying_out import lay_out
from marith.scoring.layouts.packing import Packed, pack
from marith.scoring.layouts.quantised import FORMATS, Int4Linear, Int8Linear, QuantisedLinear
from marith.scoring.layouts.quantising import loading_in, quantise, quantised_share

IDS = torch.arange(12)[None]


def model(tied: bool = False, vocab: int = 515) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=vocab, tie_word_embeddings=tied, initializer_range=0.1,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@torch.inference_mode()
def logprobs(one: Any) -> Tensor:
    out: Tensor = torch.log_softmax(one(IDS, use_cache=False).logits.float(), dim=-1)
    return out


def dequantised(one: Any) -> Any:
    for name, layer in [*one.named_modules()]:
        if isinstance(layer, QuantisedLinear):
            one.set_submodule(name, layer.plain())
    return one


@pytest.mark.parametrize("kind", FORMATS.values())
@torch.inference_mode()
def test_a_laid_out_layer_is_the_layer_of_its_levels(kind: type[QuantisedLinear]) -> None:
    torch.manual_seed(1)
    linear, x = nn.Linear(320, 272), torch.randn(3, 40, 320)
    stored, laid_out = kind.of(linear), kind.of(linear)
    laid_out.lay_out()
    laid_out.lay_out()
    exact = stored.plain()(x)
    for answer in (stored(x), laid_out(x)):
        error = (answer - exact).norm() / exact.norm()
        assert error < (1e-4 if kind is Int8Linear else 4e-3)  # bfloat16 keeps eight digits
    assert (laid_out(x) - stored(x)).norm() / exact.norm() < 2e-4
    limit = 0.01 if kind is Int8Linear else 0.12
    assert (exact - linear(x)).norm() / exact.norm() < limit


@pytest.mark.parametrize("kind", [None, *FORMATS.values()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_a_row_has_the_same_bits_alone_and_among_others(
    kind: type[QuantisedLinear] | None, dtype: torch.dtype
) -> None:
    torch.manual_seed(2)
    layer: Any
    for inputs, outputs in ((768, 2304), (2048, 768), (768, 4096), (2048, 2048)):
        linear, x = nn.Linear(inputs, outputs), torch.randn(256, inputs, dtype=dtype)
        layer = nn.Sequential(linear.to(dtype) if kind is None else kind.of(linear))
        pack(layer)
        assert isinstance(layer[0], kind or Packed)
        whole = layer(x)
        for rows in (1, 4, 16, 64):
            assert torch.equal(torch.cat([layer(part) for part in x.split(rows)]), whole)


@pytest.mark.parametrize("kind", FORMATS.values())
@torch.inference_mode()
def test_rows_of_zeros_and_rows_of_one_number_are_numbers(kind: type[QuantisedLinear]) -> None:
    linear = nn.Linear(64, 32)
    linear.weight[3], linear.weight[4] = 0, 0.25
    layer = kind.of(linear)
    layer.lay_out()
    x = torch.zeros(2, 64)
    x[1] = 1
    torch.testing.assert_close(layer(x), linear(x), atol=0.1, rtol=0.02)
    torch.testing.assert_close(layer(x)[:, 3], linear(x)[:, 3], atol=1e-4, rtol=0)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_a_model_is_quantised_while_it_is_loaded_as_afterwards(
    name: str, tied: bool, tmp_path: Path
) -> None:
    model(tied).save_pretrained(tmp_path)
    loaded, report = AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=loading_in(name), output_loading_info=True
    )
    assert not report["missing_keys"]
    quantise(loaded.eval(), name)
    afterwards = model(tied)
    quantise(afterwards, name)
    assert torch.equal(logprobs(loaded), logprobs(afterwards))
    assert type(loaded.lm_head) is Int8Linear  # in every format
    assert type(loaded.model.layers[0].mlp.up_proj) is FORMATS[name]
    assert type(loaded.model.embed_tokens) is nn.Embedding


@pytest.mark.parametrize(("name", "most", "nats"), [("int8", 1e-3, 2e-3), ("int4", 0.02, 0.15)])
def test_a_fused_model_answers_as_its_dequantised_one(name: str, most: float, nats: float) -> None:
    # `most` in total variation, `nats` of any token. Inputs of 16 bits leave the least likely
    # tokens 1e-3 nats on either side, by the order in which one rounds.
    one, reference = model(), model()
    quantise(reference, name)
    assert "2 of 2 layers fused" in lay_out(one, name)
    assert sum(isinstance(layer, FusedLayer) for layer in one.modules()) == 2
    answer, expected = logprobs(one), logprobs(dequantised(reference))
    assert (answer.exp() - expected.exp()).abs().sum(-1).max() / 2 < most
    assert (answer - expected).abs().max() < nats
    assert quantised_share(one) > 0.5


def test_what_the_operator_does_not_take_in_four_bits_has_eight() -> None:
    one = model()
    layer = one.model.layers[0].mlp
    layer.gate_proj = nn.Linear(256, 511)
    layer.down_proj = nn.Linear(511, 256)
    quantise(one, "int4")
    assert type(layer.gate_proj) is type(layer.down_proj) is Int8Linear
    assert type(layer.up_proj) is Int4Linear


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(ModelError, match=r"quantize is 'int8' or 'int4', or None.*'int3'"):
        Placement(quantize="int3")


@pytest.mark.parametrize("name", FORMATS)
def test_a_quantised_model_keeps_its_cache_and_answers_by_it(name: str) -> None:
    with Engine.load("pocket", quantize=name) as engine, Engine.load("pocket") as plain:
        assert f"{name} and float32" in repr(engine)
        assert "without a cache" not in repr(engine)
        prompt = "What do you know about bees?"
        texts = [one.generate(prompt, temperature=0, max_tokens=12) for one in (engine, plain)]
        assert texts[0].stats.passes == texts[1].stats.passes
        [first, second] = [one.next_logprobs(prompt, "M") for one in (engine, plain)]
        assert 0 < float((first.exp() - second.exp()).abs().sum()) / 2 < 0.1


@pytest.mark.parametrize("name", FORMATS)
def test_adapters_and_early_exits_go_over_quantised_layers(name: str) -> None:
    terms = {"polite": Prompted(adapter="pocket-polite"), "early": Prompted(exit_layer=2)}
    answers = []
    for how in (name, None):
        with Engine.load("pocket", quantize=how) as engine:
            layers = engine._registry.base.checkpoint.model.model.layers
            assert all(isinstance(layer, FusedLayer) for layer in layers)
            prompt = "What do you know about bees?"
            answers.append([engine.next_logprobs(prompt, f, terms) for f in ("M", *terms)])
    for quantised_one, plain in zip(*answers, strict=True):
        assert 0 < float((quantised_one.exp() - plain.exp()).abs().sum()) / 2 < 0.15
    assert float((answers[0][0].exp() - answers[0][1].exp()).abs().sum()) > 0.2


@pytest.mark.parametrize("name", FORMATS)
def test_layers_that_hold_their_weights_the_other_way_round_are_quantised(name: str) -> None:
    whole, one = tiny_gpt2(), tiny_gpt2()
    lay_out(one, name)
    assert sum(isinstance(layer, QuantisedLinear) for layer in one.modules()) == 4 * 2 + 1
    distance = (logprobs(one).exp() - logprobs(whole).exp()).abs().sum(-1).max() / 2
    assert 0 < distance < (0.02 if name == "int8" else 0.2)


def tiny_gpt2() -> Any:
    torch.manual_seed(0)
    config = GPT2Config(n_embd=128, n_layer=2, n_head=4, vocab_size=512, n_positions=64)
    return GPT2LMHeadModel(config).eval()


def test_small_layers_that_join_large_ones_are_quantised_too() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=1, vocab_size=515,
    )  # fmt: skip
    assert "2 of 2 layers fused" in lay_out(LlamaForCausalLM(config).eval(), "int8")


@pytest.mark.parametrize(("isa", "bits"), [("AVX512_CORE", 14), ("AVX2", 14)])
def test_inputs_have_fewer_bits_where_sums_of_products_would_overflow(isa: str, bits: int) -> None:
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": isa, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EXTREMES],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found, error = done.stdout.split()
    assert int(found) <= bits
    assert float(error) < 2e-4


EXTREMES = """
import torch
from torch import nn
from marith.scoring.layouts.quantised import Int8Linear, input_bits
linear, x = nn.Linear(320, 272, bias=False), torch.rand(9, 320)
linear.weight.data.fill_(0.5)
layer = Int8Linear.of(linear)
exact = layer.plain()(x)
layer.lay_out()
print(input_bits(), float((layer(x) - exact).abs().max() / exact.abs().max()))
"""


def test_a_torch_without_products_of_whole_numbers_refuses_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: Any) -> None:
        raise RuntimeError("no such operator")

    quantised.input_bits.cache_clear()
    monkeypatch.setattr(quantised, "_whole_product", missing)
    with pytest.raises(ModelError, match="needs products of whole numbers"):
        Engine.load("pocket", quantize="int4")
    monkeypatch.undo()
    quantised.input_bits.cache_clear()


def test_the_formats_that_a_request_may_name_are_those_there_are() -> None:
    assert tuple(QUANTIZED) == tuple(FORMATS)
