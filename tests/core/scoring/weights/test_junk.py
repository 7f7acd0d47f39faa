"""Checkpoints with invalid files: one sentence, at once, and never another error."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from support.junk_checkpoints import FILES, attempt, load, saved

import marith
from marith.errors import ModelError
from marith.scoring.weights.kinds import raising_model_error
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

SAMPLE = 24


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sound")
    saved(home)
    return home


@pytest.fixture
def home(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "checkpoint")


def write(home: Path, file: str, content: Any) -> None:
    (home / file).write_text(json.dumps(content), encoding="utf-8")


def refusal(home: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load(home)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "junk",
    [
        {"max_position_embeddings": "many"},
        {"eos_token_id": {"a": 1}},
        {"num_attention_heads": 0},
        {"rope_scaling": {"rope_type": 7}},
        {"rope_parameters": "yarn"},
        {"dtype": "sys"},
        {"vocab_size": "all"},
        {"hidden_size": 10**6},
        {"num_hidden_layers": 10**6},
        {"architectures": 7, "model_type": ["llama"]},
    ],
)
def test_a_junk_configuration_is_refused_soon(home: Path, junk: dict[str, Any]) -> None:
    write(home, "config.json", {**json.loads((home / "config.json").read_text()), **junk})
    started = time.perf_counter()
    refusal(home)
    assert time.perf_counter() - started < 5


def test_so_many_layers_are_refused_by_what_the_files_hold(home: Path) -> None:
    config = json.loads((home / "config.json").read_text())
    write(home, "config.json", {**config, "num_hidden_layers": 10**6})
    said = "asks for 1000000 num_hidden_layers, and its files hold 21 tensors"
    assert refusal(home).endswith(said)
    write(home, "config.json", {**config, "vocab_size": 10**8})
    assert "asks for 6400015520 weights, and its files hold" in refusal(home)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", []),
        ("generation_config.json", {"eos_token_id": ["a"]}),
        ("generation_config.json", {"eos_token_id": {"a": "b"}}),
        ("model.safetensors.index.json", {}),
        ("model.safetensors.index.json", {"weight_map": {}}),
        ("model.safetensors.index.json", []),
        ("tokenizer.json", {}),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": "b"}}}),
        ("tokenizer_config.json", []),
    ],
)
def test_a_file_of_junk_is_refused(home: Path, file: str, content: Any) -> None:
    write(home, file, content)
    refusal(home)


@pytest.mark.parametrize("number", range(SAMPLE))
def test_any_mutated_checkpoint_loads_or_is_refused(home: Path, number: int) -> None:
    assert set(FILES) <= {path.name for path in home.iterdir()}
    attempt(home, random.Random(number))


@pytest.mark.parametrize("length", ["x", 1.5, True, [1]])
def test_a_context_is_a_whole_number(length: Any) -> None:
    with pytest.raises(ModelError, match="context_length is a whole number of tokens, not"):
        marith.Engine.load(tiny_model(), tokenizer=tiny_tokenizer(), context_length=length)


def test_whatever_a_library_raises_is_a_model_error() -> None:
    panic = type("PanicException", (BaseException,), {})  # as pyo3 has it
    for error in (KeyError("k"), MemoryError(), panic("on\ntwo lines"), RecursionError()):
        with (
            pytest.raises(ModelError, match=r"^loading: \S") as caught,
            raising_model_error("loading"),
        ):
            raise error
        assert "\n" not in str(caught.value)
    for error in (KeyboardInterrupt(), SystemExit(1)):
        with pytest.raises(type(error)), raising_model_error("loading"):
            raise error


def test_a_classifier_that_cannot_judge_is_refused_when_it_is_named(tmp_path: Path) -> None:
    model = tiny_classifier()
    with torch.no_grad():
        model.score.weight.fill_(torch.nan)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with marith.Engine.load(tiny_model(), tokenizer=tiny_tokenizer()) as engine:
        with pytest.raises(ModelError, match=r"damaged: .* 'score\.weight'"):
            engine.generate("a", f"M + classifier({str(tmp_path)!r})")
        assert engine.generate("a", stop=marith.Stop(2)).finish_reason
