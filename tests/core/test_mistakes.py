"""Mistakes as users type them, in calls and in names of models, each answered by one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.error_sentences import refusal

import marith
from marith.testing import tiny_model, tiny_tokenizer

CALLS = [
    ("engine.generate([])", "a text or a list of messages such as {'role'"),
    ("engine.submit('Hi')", "write submit(Request('Hi')), or generate('Hi') for the text"),
    ("engine.generate('Hi', sampling=0.7)", "for example, Sampling(temperature=0.7)"),
    (
        "engine.generate('Hi', {'chef': 'Cook.'})",
        "the terms after the formula, or by name: terms={…}",
    ),
    ("engine.generate('Hi', 'chef', 'Cook.')", "terms map names to prompts or terms, such as"),
    ("engine.generate('Hi', 'union')", "'union' is a function, called as union(…), and not a term"),
    ("engine.generate('Hi', reasoning_effort='low')", "write template_options={…}"),
    ("Prompted(prompt='Cook.')", "Prompted takes no 'prompt'; write system=…"),
    ("engine.generate('Hi', grammar='yes|no')", "for example, Grammar.regex('yes|no')"),
    ("engine.generate('Hi', max_new_tokens=5)", "'max_new_tokens'; write max_tokens=…"),
    ("engine.generate('Hi', stop_sequences=['.'])", "'stop_sequences'; write stop=['…']"),
    ("engine.next_logprobs('Hi', temperature=1)", "next_logprobs takes no 'temperature', but"),
    ("Stop(max_token=5)", "Stop takes no 'max_token'; did you mean 'max_tokens'?"),
    ("Sampling(max_tokens=5)", "Sampling takes no 'max_tokens'; write Stop(max_tokens=…)"),
    ("Request('Hi', stop=['END'])", "stop must be a Stop, not ['END']; write, for example"),
    (
        "Tools([tool({'type': 'objekt'})])",
        "the tool 'f': its parameters must have the type 'object', as in {'type'",
    ),
    (
        "Tools([{'name': 'f'}])",
        "a tool must be written as {'type': 'function', 'function': {'name'",
    ),
    (
        "wordless.generate('a', tools=Tools([tool({})], choice='f'))",
        "cannot write; JSON and",
    ),
]
MODELS = [
    (
        "Engine.load('https://huggingface.co/openai-community/gpt2')",
        "a model is named by a directory",
    ),
    ("Engine.load(None)", "a directory, a hub id or a loaded model of transformers, not None"),
    ("Engine.load('no_tokenizer')", "tokenizer.save_pretrained('no_tokenizer') writes one"),
    ("Engine.load('no_model')", "'no_model' holds no model: it has no config.json"),
    ("Engine.load('pickled')", "pytorch_model.bin is a pickle: marith reads no pickles"),
    ("Engine.load('adapter')", "over its base model it is prompted(adapter='adapter')"),
    ("Engine.load('pocket', trust_remote_code=True)", "marith never runs the code of a checkpoint"),
    ("Engine.load('pocket', revision='v2')", "is on this machine; leave out revision"),
    ("Engine.load('pocket', context_length=4096)", "'pocket' holds 1024 tokens, not 4096"),
    ("Engine.load('pocket', gpu_memory_utilization=0.9)", "; write cache_bytes=…, a number of"),
    ("Engine.load(loaded)", "a loaded model needs its tokenizer: Engine.load(model, tokenizer=…)"),
    ("Engine('pocket')", "needs a loaded model; write Engine.load('pocket')"),
    ("engine.generate('Hi', classifier('pocket-toxicity', 'nice'))", "it has civil, toxic"),
    ("engine.generate('Hi', Prompted(adapter='pocket-polit'))", "did you mean 'pocket-polite'?"),
]


def tool(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


def classifier(model: str, label: str) -> marith.Formula:
    return marith.Prompted() + marith.Classifier(model, label=label)


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
def names() -> Mapping[str, Any]:
    """What the code of the tables may name: engines, and what marith exports."""
    exported = {name: getattr(marith, name) for name in marith.__all__}
    engine = marith.Engine.shared("pocket")
    engine.next_logprobs("Hi", classifier("pocket-toxicity", "civil"))  # loads the classifier
    wordless = marith.Engine.load(tiny_model(), tokenizer=tiny_tokenizer())
    own = {"tool": tool, "classifier": classifier, "loaded": tiny_model()}
    return {**exported, **own, "engine": engine, "wordless": wordless}


@pytest.mark.parametrize(("typed", "sentence"), [*CALLS, *MODELS], ids=lambda each: each)
def test_a_mistake_is_refused_in_one_sentence(
    typed: str,
    sentence: str,
    names: Mapping[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert sentence in refusal(lambda: eval(typed, {**names}))  # rows of this file alone
