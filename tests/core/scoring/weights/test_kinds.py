"""Models that are no causal language models are refused in one sentence."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.architectures import BERT, COMMON, LLAMA
from support.chat_families import speaker
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    LlamaConfig,
    LlamaModel,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTModel,
    XLMConfig,
    XLMWithLMHeadModel,
    XLNetConfig,
    XLNetLMHeadModel,
)

import marith
from marith.errors import ModelError
from marith.scoring.notices import collecting
from marith.scoring.weights import loader
from marith.scoring.weights.kinds import why_nan
from marith.scoring.weights.layout.packing import pack
from marith.scoring.weights.loader import Placement
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

TOKENIZER = speaker("none").tokenizer
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}  # fmt: skip
BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "max_position_embeddings": 64, "decoder_start_token_id": 0}  # fmt: skip
BUILD = {
    "t5": lambda: T5ForConditionalGeneration(T5Config(**COMMON, **T5)),
    "bart": lambda: BartForConditionalGeneration(
        BartConfig(**{**COMMON, "eos_token_id": 1}, **BART)
    ),
    "classifier": lambda: tiny_classifier(vocab=258),
    "headless": lambda: LlamaModel(LlamaConfig(**COMMON, **LLAMA)),
    "xlnet": lambda: XLNetLMHeadModel(
        XLNetConfig(**COMMON, d_model=64, n_layer=2, n_head=4, d_inner=128)
    ),
    "xlm": lambda: XLMWithLMHeadModel(XLMConfig(**COMMON, emb_dim=64, n_layers=2, n_heads=4)),
    "masked": lambda: BertForMaskedLM(BertConfig(**COMMON, **{**BERT, "is_decoder": False})),
    "both ways": lambda: BertLMHeadModel(BertConfig(**COMMON, **{**BERT, "is_decoder": False})),
}
SAID = {
    "t5": r"is an encoder-decoder \(T5ForConditionalGeneration\); marith needs a causal language",
    "bart": r"is an encoder-decoder \(BartForConditionalGeneration\); marith needs a causal",
    "classifier": r"is a sequence classifier \(LlamaForSequenceClassification\); a causal language "
    r"model is needed here, and in formulas this is classifier\('",
    "headless": r"\(LlamaModel\) (is a model without a head|lacks weights of LlamaForCausalLM)",
    "xlnet": "XLNetLMHeadModel is not a causal language model: it reads later tokens",
    "xlm": "XLMWithLMHeadModel is not a causal language model: it reads later tokens",
    "masked": r"is a model that fills gaps in texts \(BertForMaskedLM\); a causal language model",
    "both ways": "BertLMHeadModel is not a causal language model: it reads later tokens",
}


def built(name: str) -> Any:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = BUILD[name]().eval()
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3)
    return model


@pytest.mark.parametrize("name", BUILD)
def test_another_kind_of_model_is_named_loaded_or_not(name: str, tmp_path: Path) -> None:
    model = built(name)
    with pytest.raises(ModelError, match=SAID[name]) as caught, collecting():
        marith.Engine.load(model, tokenizer=TOKENIZER)
    assert "\n" not in str(caught.value)
    model.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=SAID[name]) as caught, collecting():
        marith.Engine.load(str(tmp_path), device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["t5", "bart", "classifier"])
def test_a_wrong_kind_of_model_is_refused_before_weights_are_read(
    name: str, tmp_path: Path
) -> None:
    built(name).config.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = [type(built(name)).__name__]
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelError, match=SAID[name]):
        marith.Engine.load(str(tmp_path), device="cpu")


def test_a_language_model_is_no_classifier(tmp_path: Path) -> None:
    tiny_model(vocab=258).save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"is a causal language model \(LlamaForCausalLM\); a seq"):
        loader.classifier(str(tmp_path), Placement("cpu"))


def test_an_encoder_decoder_may_classify(tmp_path: Path) -> None:
    config = BartConfig(**{**COMMON, "eos_token_id": 1}, **BART)
    BartForSequenceClassification(config).save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    assert loader.classifier(str(tmp_path), Placement("cpu")).model.config.num_labels == 3


def test_a_model_of_no_language_is_refused(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    ViTModel(ViTConfig(**sizes, intermediate_size=48)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"\(ViTModel\) is not a causal language model in transf"):
        marith.Engine.load(str(tmp_path), device="cpu")


def test_a_compiled_model_is_refused_and_one_that_compiles_itself_is_not() -> None:
    model = tiny_model(vocab=258)
    with pytest.raises(ModelError, match=r"compiled by torch\.compile; pass the model before"):
        marith.Engine.load(torch.compile(model, backend="eager"), tokenizer=TOKENIZER)
    with marith.Engine.load(
        torch.compile(model, backend="eager")._orig_mod, tokenizer=TOKENIZER
    ) as engine:
        want = engine.next_logprobs("a")
    model.compile(backend="eager")
    with marith.Engine.load(model, tokenizer=TOKENIZER) as engine:
        assert torch.equal(engine.next_logprobs("a"), want)


def test_code_of_its_own_is_named_and_not_run(tmp_path: Path) -> None:
    tiny_model(vocab=258).save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "brandnew", "auto_map": {"AutoConfig": "new.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ModelError, match="its own code for the model type 'brandnew', which marith"
    ):
        marith.Engine.load(str(tmp_path), device="cpu")


def test_damaged_weights_are_named_with_their_tensors(tmp_path: Path) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, :5] = math.nan
        model.model.layers[1].mlp.down_proj.weight[0, 0] = math.inf
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError) as caught:
        marith.Engine.load(tmp_path)
    said = str(caught.value)
    assert f"weights of {str(tmp_path)!r} are damaged: 2 of its 21 tensors" in said
    assert "such as 5 of the 1536 values of 'model.layers.1.mlp.up_proj.weight'" in said
    with pytest.raises(ModelError, match="are damaged"):
        marith.Engine.load(model, tokenizer=tiny_tokenizer())


def test_a_damaged_tensor_that_the_first_pass_does_not_read_is_named_later() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[9, 0] = math.nan
    said = r"1 of the \d+ values of 'model\.embed_tokens"
    with pytest.warns(UserWarning, match=said):  # the probe reads the token
        engine = marith.Engine.load(model, tokenizer=tiny_tokenizer())
    with engine, pytest.raises(ModelError, match=said):
        engine.next_logprobs([9, 9], "M")


def test_a_type_with_too_small_a_range_is_named_with_another() -> None:
    model = tiny_model()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.mlp.up_proj.weight.mul_(3e4)
    with pytest.raises(ModelError, match=r"NaN .* in float16, .*; write dtype='bfloat16'"):
        marith.Engine.load(model.half(), tokenizer=tiny_tokenizer())


def test_packed_weights_are_not_examined() -> None:
    model = tiny_model()
    pack(model, smallest=1)
    assert re.match(r"'tiny' computes NaN .* although its weights", why_nan("tiny", model))
    with torch.no_grad():
        model.model.norm.weight[0] = math.nan
    assert re.search(r"damaged: 1 of its \d+ tensors .* 'model\.norm", why_nan("tiny", model))
