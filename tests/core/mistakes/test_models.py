"""A model that is not there or cannot be used, and the sentence that says what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.mistakes import evaluated, refusal, table

import marith
from langchain_marith import MarithLLM
from marith.scoring.weights.locate import WEIGHTS
from marith.testing import tiny_model, tiny_tokenizer

NAMES = [
    (
        "Engine.load('https://huggingface.co/openai-community/gpt2')",
        "there is no model 'https://huggingface.co/openai-community/gpt2'; a model is named by a "
        "directory, a GGUF file, a hub id such as 'owner/name', or a GGUF file on the hub such as "
        "'owner/name:file.gguf'",
    ),
    (
        "engine.generate('Hi', 'M + C', {'C': Classifier('pocket-toxicity', label='nice')})",
        "'pocket-toxicity' has no label 'nice'; it has civil, toxic",
    ),
    (
        "engine.generate('Hi', 'a', {'a': Prompted(adapter='pocket-polit')})",
        "there is no directory 'pocket-polit', and nothing of this name in the hub's cache; "
        "HF_HUB_OFFLINE is set; did you mean 'pocket-polite'?",
    ),
    (
        "Engine.load(None)",
        "a model is a name, a directory, a hub id or a loaded model of transformers, not None",
    ),
    ("Engine('pocket')", "an engine is made by Engine.load('pocket')"),
]  # fmt: skip
DIRECTORIES = [
    (
        "Engine.load('no_tokenizer')",
        "the directory 'no_tokenizer' has no tokenizer; "
        "tokenizer.save_pretrained('no_tokenizer') writes one",
    ),
    ("Engine.load('no_model')", "the directory 'no_model' holds no model: it has no config.json"),
    (
        "Engine.load('pickled')",
        "the directory 'pickled' holds no weights as safetensors; pytorch_model.bin is a pickle: "
        "marith reads no pickles, and transformers' save_pretrained writes safetensors",
    ),
    (
        "Engine.load('adapter')",
        "'adapter' is a LoRA adapter and no model; in formulas over its base model it is "
        "prompted(adapter='adapter')",
    ),
]
OPTIONS = [
    (
        "Engine.load('pocket', trust_remote_code=True)",
        "Engine.load takes no 'trust_remote_code'; marith never runs the code of a checkpoint",
    ),
    (
        "Engine.load(loaded)",
        "a loaded model needs its tokenizer: Engine.load(model, tokenizer=…)",
    ),
    (
        "Engine.load('pocket', revision='v2')",
        f"revision='v2' is of a model on the hub, and {str(WEIGHTS / 'pocket')!r} is on this "
        "machine; leave out revision",
    ),
    (
        "Engine.load('pocket', context_length=4096)",
        "the context of 'pocket' holds 1024 tokens, not 4096",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories without something that a model needs."""
    home = tmp_path_factory.mktemp("mistaken")
    tiny_model().save_pretrained(home / "no_tokenizer")
    tiny_model().save_pretrained(home / "pickled")
    tiny_tokenizer().save_pretrained(home / "pickled")
    weights = home / "pickled" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    (home / "no_model").mkdir()
    (home / "adapter").mkdir()
    (home / "adapter" / "adapter_config.json").write_text("{}", encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def names(tiny_dir: str) -> Mapping[str, Any]:
    """What the code of the tables may name."""
    exported = {name: getattr(marith, name) for name in marith.__all__}
    engine = marith.Engine.load("pocket", device="cpu")
    engine.next_logprobs("Hi", "M + C", {"C": marith.Classifier("pocket-toxicity")})  # loads it
    return {**exported, "MarithLLM": MarithLLM, "engine": engine, "loaded": tiny_model()}


@table([*NAMES, *DIRECTORIES, *OPTIONS])
def test_it_is_refused_in_one_sentence(
    typed: str,
    sentence: str,
    names: Mapping[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert refusal(lambda: evaluated(typed, names)) == sentence
