"""Adapters that are no plain LoRA of the model are refused in one sentence, before any pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import IA3Config, LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from marith.errors import ModelError
from marith.scoring.weights.llama_cpp import llama_cpp_loading
from marith.scoring.weights.lora_files import CONFIG, TENSORS, Adapter, read
from marith.testing import tiny_model

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
MODEL = tiny_model()


def save(folder: Path, kind: Any = LoraConfig, model: Any = MODEL, **given: Any) -> str:
    options = {"target_modules": ["q_proj"], **given}
    adapted = get_peft_model(copy.deepcopy(model), kind(**options))
    adapted.save_pretrained(str(folder), save_embedding_layers=False)
    return str(folder)


def refusal(name: Any, model: Any = MODEL) -> str:
    """What is said of an adapter that is not read: one sentence with its name."""
    with pytest.raises(ModelError) as caught:
        read(name, model)
    said = str(caught.value)
    assert repr(name) in said
    assert "\n" not in said
    return said


OTHER_KINDS: list[tuple[dict[str, Any], str]] = [
    ({"use_dora": True}, "lora_magnitude_vector|use_dora"),
    ({"bias": "lora_only"}, "biases"),
    ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    ({"trainable_token_indices": [3]}, "trainable_token_indices"),
    ({"target_modules": ["embed_tokens"]}, "embed_tokens"),
    ({"init_lora_weights": "pissa"}, "pissa"),
    ({"lora_bias": True, "target_modules": ["c_attn"]}, "lora_bias"),
    ({"alora_invocation_tokens": [3]}, "alora_invocation_tokens"),
]


@pytest.mark.parametrize(("given", "says"), OTHER_KINDS, ids=[says for _, says in OTHER_KINDS])
@pytest.mark.filterwarnings("ignore::UserWarning")  # peft on what may not merge
def test_variants_of_lora_are_refused(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    model = tiny_model("gpt2") if "c_attn" in given.get("target_modules", ()) else MODEL
    if model is not MODEL:
        given = {**given, "fan_in_fan_out": True}
    name = save(tmp_path, model=model, **given)
    assert any(word in refusal(name, model) for word in says.split("|"))


def test_adapters_of_other_kinds_are_refused(tmp_path: Path) -> None:
    name = save(tmp_path, IA3Config, feedforward_modules=[])
    assert "IA3" in refusal(name)


def test_an_unknown_option_of_peft_is_refused(tmp_path: Path) -> None:
    name = save(tmp_path)
    configure(name, use_tomorrows_idea=True)
    assert "use_tomorrows_idea" in refusal(name)


def configure(name: str, **values: Any) -> None:
    path = Path(name) / CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


BAD_NUMBERS: list[tuple[dict[str, Any], str]] = [
    ({"lora_alpha": None}, "lora_alpha=None"),
    ({"lora_alpha": "8"}, "lora_alpha='8'"),
    ({"lora_alpha": True}, "lora_alpha=True"),
    ({"lora_alpha": float("nan")}, "lora_alpha=nan"),
    ({"alpha_pattern": {"q_proj": "9"}}, "alpha_pattern['q_proj']='9'; it must be a finite number"),
    ({"alpha_pattern": {"q_(proj": 9}}, "alpha_pattern='(?:.*\\\\.)?(?:q_(proj)' is not a regular"),
    ({"alpha_pattern": [9]}, "alpha_pattern=[9]; it must map names of layers to numbers"),
]


@pytest.mark.parametrize(("values", "says"), BAD_NUMBERS, ids=[says for _, says in BAD_NUMBERS])
def test_an_invalid_alpha_is_refused(tmp_path: Path, values: dict[str, Any], says: str) -> None:
    name = save(tmp_path)
    configure(name, **values)
    assert says in refusal(name)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_a_configuration_that_says_nothing_is_refused(tmp_path: Path, text: str) -> None:
    name = save(tmp_path)
    (tmp_path / CONFIG).write_text(text)
    refusal(name)


@pytest.mark.parametrize("content", [b"", b"no tensors, and long enough to be read as a header"])
def test_invalid_tensors_are_refused(tmp_path: Path, content: bytes) -> None:
    name = save(tmp_path)
    (tmp_path / TENSORS).write_bytes(content)
    assert "cannot read" in refusal(name)


def test_pickled_weights_are_refused_unread(tmp_path: Path) -> None:
    name = save(tmp_path)
    (tmp_path / TENSORS).unlink()
    torch.save({"a": torch.zeros(1)}, tmp_path / "adapter_model.bin")
    assert "safetensors" in refusal(name)


def test_a_directory_that_is_missing_or_holds_a_model_is_refused(tmp_path: Path) -> None:
    assert "no adapter directory" in refusal(str(tmp_path / "missing"))
    MODEL.save_pretrained(tmp_path)
    assert CONFIG in refusal(str(tmp_path))


Tensors = dict[str, torch.Tensor]
FIRST = "base_model.model.model.layers.0.self_attn.q_proj"


def _moved(tensors: Tensors, old: str, new: str) -> Tensors:
    return {key.replace(old, new): tensor for key, tensor in tensors.items()}


CHANGES: list[tuple[str, Callable[[Tensors], Tensors]]] = [
    ("has shapes", lambda t: {k: v[:4].clone() if "A" in k else v for k, v in t.items()}),
    ("layers.9", lambda t: _moved(t, "layers.0", "layers.9")),
    ("lora_A or lora_B", lambda t: {k: v for k, v in t.items() if k != f"{FIRST}.lora_B.weight"}),
    ("a plain LoRA does not have", lambda t: {**t, f"{FIRST}.lora_C.weight": torch.zeros(1)}),
    ("finite", lambda t: {k: v / 0 for k, v in t.items()}),
    ("finite", lambda t: {k: v.int() for k, v in t.items()}),
    ("no tensors", lambda t: {}),
    ("LlamaRMSNorm", lambda t: _moved(t, "self_attn.q_proj", "input_layernorm")),
]  # fmt: skip


@pytest.mark.parametrize(("says", "change"), CHANGES)
def test_tensors_that_do_not_fit_the_model_are_refused(
    tmp_path: Path, says: str, change: Callable[[Tensors], Tensors]
) -> None:
    name = save(tmp_path)
    save_file(change(load_file(tmp_path / TENSORS)), tmp_path / TENSORS)
    assert says in refusal(name)


def test_an_adapter_of_another_family_is_refused(tmp_path: Path) -> None:
    name = save(tmp_path)
    assert "GPT2LMHeadModel does not have" in refusal(name, tiny_model("gpt2"))


def test_an_adapter_says_what_it_is_and_holds_its_numbers(tmp_path: Path) -> None:
    name = save(tmp_path, r=2, lora_alpha=6, init_lora_weights=False, target_modules=["down_proj"])
    adapter = read(name, MODEL)
    assert isinstance(adapter, Adapter)
    assert (adapter.name, adapter.rank, adapter.config["lora_alpha"]) == (name, 2, 6)
    assert sorted(adapter.updates) == [f"model.layers.{i}.mlp.down_proj" for i in (0, 1)]
    raw = load_file(tmp_path / TENSORS)[
        "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"
    ]
    assert torch.equal(adapter.updates["model.layers.1.mlp.down_proj"].up, 3 * raw.T)
    assert "tensor" not in repr(adapter)


def test_llama_cpp_reads_adapters_of_gguf_files_alone() -> None:
    model: Any = None
    with pytest.raises(ModelError, match=r"not 'pocket-polite'; .* convert_lora_to_gguf\.py"):
        llama_cpp_loading.read_adapter("pocket-polite", model)
