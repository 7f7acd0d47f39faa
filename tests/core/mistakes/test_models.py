"""A model that is not there or cannot be used, and the sentence that says what to do instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.mistakes import evaluated, refusal, table
from transformers import T5Config, T5ForConditionalGeneration

import marith
from langchain_marith import ChatMarith, MarithLLM
from llamaindex_marith import Marith
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

DEVICE = "device is a device of torch, such as 'cpu', 'cuda' or 'cuda:1', not"
DTYPE = "dtype is a floating-point type of torch, such as 'float32', 'bfloat16' or 'float16', not"
NOT_HERE = "and nothing of this name in the hub's cache; HF_HUB_OFFLINE is set"
NO_FORMULA = "'marith.toml' has no formula 'cheerfull'"
CLASSIFIER = (
    "is a sequence classifier (LlamaForSequenceClassification); a causal language model is needed "
    "here, and in formulas this is"
)

NAMES = [
    ("Engine.load('poket')", "there is no model 'poket'; did you mean 'pocket'?"),
    (
        "Engine.load('pocket-toxicty')",
        "no model in the package is called 'pocket-toxicty'; there are pocket, pocket-draft, "
        "pocket-toxicity, pocket-sentiment, pocket-formality, pocket-education",
    ),
    (
        "Engine.load('nobody/no-model')",
        f"there is no directory 'nobody/no-model', {NOT_HERE}",
    ),
    ("Engine.load('./nowhere')", "there is no model directory './nowhere'"),
    (
        "Engine.load('https://huggingface.co/openai-community/gpt2')",
        "a model on the hub is named by its id: write 'openai-community/gpt2'",
    ),
    (
        "Engine.load('./x.gguf')",
        "there is no file './x.gguf'",
    ),
    (
        "Engine.load('llama3.2:3b')",
        "'llama3.2:3b' is a name of Ollama's; a hub id names the same model by its owner, such as "
        "'meta-llama/Llama-3.2-3B-Instruct'",
    ),
    (
        "Engine.load('pocket-polite')",
        "'pocket-polite' is a LoRA adapter and no model; in formulas over its base model it is "
        "prompted(adapter='pocket-polite')",
    ),
    ("Engine.load('pocket-toxicity')", f"'pocket-toxicity' {CLASSIFIER} "
     "classifier('pocket-toxicity')"),
    (
        "engine.generate('Hi', 'M + C', {'C': Classifier('pocket')})",
        "'pocket' is a causal language model (LlamaForCausalLM); a sequence classifier is needed "
        "here, and in formulas this is prompted(model='pocket')",
    ),
    (
        "engine.generate('Hi', 'M + C', {'C': Classifier('pocket-toxicity', label='nice')})",
        "'pocket-toxicity' has no label 'nice'; it has civil, toxic",
    ),
    (
        "engine.generate('Hi', 'a', {'a': Prompted(adapter='pocket-polit')})",
        "no adapter in the package is called 'pocket-polit'; there are pocket-polite, pocket-rude",
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
    (
        "Engine.load('own_code')",
        "'own_code' brings its own code for the model type 'brandnew', which marith never runs; "
        "it needs a model that transformers itself implements",
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
    (
        "Engine.load('t5')",
        "'t5' is an encoder-decoder (T5ForConditionalGeneration); marith needs a causal language "
        "model",
    ),
    ("Engine.load('judge')", f"'judge' {CLASSIFIER} classifier('judge')"),
    (
        "engine.generate('a b', 'M + x', {'x': Prompted(model='small')})",
        "the vocabulary of 'small' (28 tokens) is not that of 'pocket' (4096 tokens), so "
        'prompted(model="small") cannot stand beside its terms; '
        "a model of the same family has the same vocabulary, and a classifier may have another",
    ),
]
OPTIONS = [
    ("Engine.load('pocket', devise='cpu')", "Engine.load takes no 'devise'; did you mean "
     "'device'?"),
    (
        "Engine.load('pocket', trust_remote_code=True)",
        "Engine.load takes no 'trust_remote_code'; marith never runs the code of a checkpoint",
    ),
    (
        "Engine.load('pocket', tokenizer='pocket')",
        "'pocket' brings its own tokenizer; leave out tokenizer=",
    ),
    (
        "Engine.load(loaded)",
        "a loaded model needs its tokenizer: Engine.load(model, tokenizer=…)",
    ),
    ("Engine.load('pocket', device='gpu')", f"{DEVICE} 'gpu'; write 'cuda'"),
    ("Engine.load('pocket', device='cuda:x')", f"{DEVICE} 'cuda:x'; write 'cuda'"),
    ("Engine.load('pocket', dtype='fp16')", f"{DTYPE} 'fp16'; write 'float16'"),
    (
        "Engine.load('pocket', revision='v2')",
        "'pocket' is in the package and has no revisions; leave out revision",
    ),
    (
        "Engine.load('pocket', context_length=4096)",
        "the context of 'pocket' holds 1024 tokens, not 4096",
    ),
    ("Options(device='gpu')", f"{DEVICE} 'gpu'; write 'cuda'"),
    ("Options(dtype='fp16')", f"{DTYPE} 'fp16'; write 'float16'"),
    ("Options(temprature=1)", "Options takes no option 'temprature'; did you mean 'temperature'?"),
    ("ChatMarith(temprature=1)", "ChatMarith takes no option 'temprature'; did you mean "
     "'temperature'?"),
    ("MarithLLM(max_token=4)", "MarithLLM takes no option 'max_token'; did you mean 'max_tokens'?"),
    ("Marith(temprature=1)", "Marith takes no option 'temprature'; did you mean 'temperature'?"),
    (
        "ChatMarith().invoke('Hi', temprature=1)",
        "ChatMarith takes no option 'temprature'; did you mean 'temperature'?",
    ),
    ("ChatMarith(model='poket').invoke('Hi')", "there is no model 'poket'; did you mean 'pocket'?"),
    ("Marith.from_file('marith.toml', 'cheerfull')", f"{NO_FORMULA}; did you mean 'cheerful'?"),
    (
        "Marith.from_file('marith.toml', 'plain').complete('x', model='cheerfull')",
        f"{NO_FORMULA}, and no model on this machine is called so; did you mean 'cheerful'?",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories without something that a model needs, and a persona file."""
    home = tmp_path_factory.mktemp("mistaken")
    tiny_model().save_pretrained(home / "no_tokenizer")
    for name in ("own_code", "pickled", "small"):
        tiny_model().save_pretrained(home / name)
        tiny_tokenizer().save_pretrained(home / name)
    config = home / "own_code" / "config.json"
    changed = {"model_type": "brandnew", "auto_map": {"AutoConfig": "new.Config"}}
    config.write_text(json.dumps(json.loads(config.read_text()) | changed), encoding="utf-8")
    weights = home / "pickled" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    (home / "no_model").mkdir()
    (home / "adapter").mkdir()
    (home / "adapter" / "adapter_config.json").write_text("{}", encoding="utf-8")
    small = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    T5ForConditionalGeneration(T5Config(vocab_size=28, **small)).save_pretrained(home / "t5")
    tiny_classifier().save_pretrained(home / "judge")
    (home / "marith.toml").write_text("[formulas]\nplain = 'M'\ncheerful = '2*M'", encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def names(tiny_dir: str) -> Mapping[str, Any]:
    """What the code of the tables may name."""
    exported = {name: getattr(marith, name) for name in marith.__all__}
    adapters = {"ChatMarith": ChatMarith, "MarithLLM": MarithLLM, "Marith": Marith}
    engine = marith.Engine.load("pocket", device="cpu")
    engine.next_logprobs("Hi", "M + C", {"C": marith.Classifier("pocket-toxicity")})  # loads it
    return {**exported, **adapters, "engine": engine, "loaded": tiny_model()}


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
