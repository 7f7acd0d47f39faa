"""Checkpoints from directories: loaded once, freed when unused, and none of their code run."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from marith import Engine
from marith.errors import ModelError
from marith.scoring.weights import loader
from marith.scoring.weights.loader import Placement
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

CPU = Placement(device="cpu")
WEIGHTS = "model.safetensors"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A language model as save_pretrained leaves it."""
    where = tmp_path / "saved"
    tiny_model().save_pretrained(where)
    tiny_tokenizer().save_pretrained(where)
    return where


def refusal(name: Any, placement: Placement = CPU) -> str:
    """What the shelf says of a model that it does not load: one sentence."""
    with pytest.raises(ModelError) as caught:
        loader.language_model(name, placement)
    said = str(caught.value)
    assert said
    assert "\n" not in said
    return said


def test_a_saved_model_is_loaded_as_it_was(saved: Path) -> None:
    checkpoint = loader.language_model(str(saved), CPU)
    assert checkpoint.context_length == 128
    assert checkpoint.vocabulary.size == 28
    assert checkpoint.vocabulary.eos_ids == {1}
    ids = torch.tensor([[1, 2, 3]])
    with torch.inference_mode():
        got, want = checkpoint.model(ids).logits, tiny_model()(ids).logits
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_one_directory_is_one_checkpoint_however_it_is_spelled(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = loader.language_model(str(saved), CPU)
    assert loader.language_model(str(saved), CPU) is first
    assert loader.language_model(f"{saved}/../saved/", CPU) is first
    monkeypatch.chdir(saved.parent)
    assert loader.language_model("./saved", CPU) is first


def test_sampling_values_of_a_checkpoint_are_named_once_and_not_applied(
    saved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A formula means the same for every checkpoint; other libraries apply these values."""
    caplog.set_level("INFO", "marith")
    with Engine.load(saved) as engine:
        plain = engine.generate("a b", seed=3, max_tokens=12).tokens
    assert "of its own" not in caplog.text
    own = GenerationConfig(do_sample=True, temperature=0.1, top_k=1, top_p=1.0, eos_token_id=1)
    own.save_pretrained(saved)
    with Engine.load(saved, context_length=32) as engine, Engine.load(saved, context_length=32):
        assert engine.generate("a b", seed=3, max_tokens=12).tokens == plain
    (said,) = [line for line in caplog.messages if "of its own" in line]
    assert "temperature=0.1, top_k=1; write them as options" in said


def test_another_placement_is_another_checkpoint(saved: Path) -> None:
    first = loader.language_model(str(saved), CPU)
    half = loader.language_model(str(saved), Placement("cpu", "bfloat16"))
    assert half is not first
    assert (first.model.dtype, half.model.dtype) == (torch.float32, torch.bfloat16)


def test_a_checkpoint_that_nobody_uses_is_freed(saved: Path) -> None:
    checkpoint = loader.language_model(str(saved), CPU)
    model = weakref.ref(checkpoint.model)
    del checkpoint
    gc.collect()
    assert model() is None
    assert not [key for key in loader._kept if key[1] == str(saved.resolve())]


def test_a_saved_classifier_keeps_its_labels(tmp_path: Path) -> None:
    tiny_classifier(labels=("calm", "angry")).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    checkpoint = loader.classifier(str(tmp_path), CPU)
    assert checkpoint.model.config.id2label == {0: "calm", 1: "angry"}


def test_a_directory_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert missing in refusal(missing)
    assert "config.json" in refusal(str(tmp_path))


def pickle_weights(home: Path) -> None:
    (home / WEIGHTS).unlink()
    torch.save(tiny_model().state_dict(), home / "pytorch_model.bin")


def reshape(home: Path) -> None:
    config = json.loads((home / "config.json").read_text())
    (home / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda home: (home / WEIGHTS).unlink(), "safetensors"),
        (pickle_weights, "safetensors"),
        (lambda home: (home / WEIGHTS).write_bytes(b""), ""),
        (lambda home: (home / WEIGHTS).write_bytes(b"no weights, and as long as a header"), ""),
        (reshape, ""),
        (lambda home: (home / "config.json").write_text("{"), ""),
        (lambda home: (home / "config.json").write_text("{}"), ""),
        (lambda home: (home / "config.json").write_text('{"model_type": "no such model"}'), ""),
    ],
)
def test_files_that_hold_no_model_are_refused(
    saved: Path, change: Callable[[Path], object], says: str
) -> None:
    change(saved)
    assert (says or str(saved)) in refusal(str(saved))


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        *((Placement(device=device), device) for device in ("toaster", "gpu:0")),
        *((Placement("cpu", dtype), dtype) for dtype in ("int8", "float33", "nn")),
        *((Placement("cpu", context_length=n), f"128 tokens, not {n}") for n in (-5, 0, 1, 129)),
    ],
)
def test_an_impossible_device_type_or_context_is_refused(
    saved: Path, placement: Placement, says: str
) -> None:
    assert says in refusal(str(saved), placement)


@pytest.mark.parametrize("model_type", ["llama", "custom"])
def test_code_that_comes_with_a_model_is_never_run(saved: Path, model_type: str) -> None:
    marker = saved.parent / "marker"
    evil = f"open({str(marker)!r}, 'w').close()\nclass Evil: pass\n"
    for file in ("modeling_evil.py", "configuration_evil.py", "tokenization_evil.py"):
        (saved / file).write_text(evil)
    config = json.loads((saved / "config.json").read_text())
    config["model_type"] = model_type
    config["auto_map"] = {
        "AutoConfig": "configuration_evil.Evil",
        "AutoModelForCausalLM": "modeling_evil.Evil",
    }
    (saved / "config.json").write_text(json.dumps(config))
    known = json.loads((saved / "tokenizer_config.json").read_text())
    known["auto_map"] = {"AutoTokenizer": ["tokenization_evil.Evil", "tokenization_evil.Evil"]}
    (saved / "tokenizer_config.json").write_text(json.dumps(known))
    if model_type == "custom":
        refusal(str(saved))
    else:
        try:
            assert type(loader.language_model(str(saved), CPU).model).__name__ == "LlamaForCausalLM"
        except ModelError as error:
            assert str(error)
    assert not marker.exists()


def test_a_hub_id_that_cannot_be_reached_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "nobody/no-such-model" in refusal("nobody/no-such-model")


@pytest.mark.parametrize(
    "name", ["", None, 7, "a/b/c", "https://example.org/x", "./x", "~/x", ".."]
)
def test_an_invalid_name_is_refused(name: Any) -> None:
    if name == "..":
        assert "config.json" in refusal(name)
    else:
        refusal(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_this_machine_lacks_is_refused(saved: Path) -> None:
    assert "cuda" in refusal(str(saved), Placement(device="cuda"))


@pytest.mark.parametrize("length", [2, 100, 128])
def test_a_shorter_context_may_be_asked_for(saved: Path, length: int) -> None:
    placement = Placement("cpu", context_length=length)
    assert loader.language_model(str(saved), placement).context_length == length


def test_a_loaded_model_comes_with_its_tokenizer() -> None:
    with pytest.raises(ModelError, match="tokenizer="):
        loader.from_loaded(tiny_model(), None, Placement())


def test_a_model_that_is_no_language_model_is_refused() -> None:
    with pytest.raises(ModelError, match="not Linear"):
        loader.from_loaded(torch.nn.Linear(2, 2), tiny_tokenizer(), Placement())


def test_a_misspelt_name_of_the_package_is_refused_without_a_network() -> None:
    assert "pocket-toxicity" in refusal("pocket-toxic", CPU)


def test_a_loaded_model_stays_as_it_is() -> None:
    model = tiny_model().train()
    weights, modules = list(model.parameters()), list(model.modules())
    held = loader.from_loaded(model, tiny_tokenizer(), Placement()).model
    assert held is not model
    own = {weight.data_ptr() for weight in weights}
    copied = [name for name, one in held.named_parameters() if one.data_ptr() not in own]
    assert all(".joint." in name for name in copied)  # products of several layers, nothing else
    held.eval()
    assert model.training
    assert all(a is b for a, b in zip(model.modules(), modules, strict=True))


def test_a_head_that_no_file_holds_is_refused_and_not_made_up(saved: Path) -> None:
    with pytest.raises(ModelError):
        loader.classifier(str(saved), CPU)
