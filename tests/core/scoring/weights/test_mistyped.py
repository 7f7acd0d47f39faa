"""An unknown name of a model is refused in less than a second, with a suggestion."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from marith import Engine, FormulaError, ModelError, Options, Prompted
from marith.scoring.weights import locate as locating
from marith.testing import tiny_model

SECONDS = 1.0


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hub may be asked, and cannot be reached; the names that it was asked for."""
    asked: list[str] = []

    class Unreachable:
        def model_info(self, name: str, **options: Any) -> None:
            asked.append(name)
            assert options["timeout"] == locating.SECONDS
            raise ConnectionError("no route to the hub")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(locating, "HfApi", Unreachable)
    return asked


def refusal(name: Any, **options: Any) -> str:
    start = time.perf_counter()
    with pytest.raises(ModelError) as caught:
        Engine.load(name, **options)
    assert time.perf_counter() - start < SECONDS
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "poket",
            "there is no directory 'poket', and nothing of this name in the hub's cache",
        ),
        ("pocket-toxicty", "; did you mean 'pocket-toxicity'?"),
        ("./x.gguf", "there is no model './x.gguf'; a model is named by a directory, a GGUF file,"),
        ("./my_model", "there is no model './my_model'; a model is named by a directory,"),
        ("llama3.2:3b", "a hub id such as 'owner/name', or a GGUF file on the hub such as"),
        ("owner/name:Q4_K_M", "'owner/name:file.gguf'"),
    ],
)
def test_a_mistake_is_seen_without_the_hub(online: list[str], name: str, problem: str) -> None:
    assert problem in refusal(name)
    assert not online


@pytest.mark.parametrize("name", ["nobody/no-such-model", "cheerful"])
def test_the_hub_is_asked_once(online: list[str], name: str) -> None:
    assert refusal(name) == (
        f"there is no directory '{name}', and nothing of this name in the hub's cache; "
        "the hub cannot be reached: no route to the hub"
    )
    assert online == [name]


@pytest.fixture
def personas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "marith.toml"
    path.write_text(
        "[model]\nmodel = 'own'\n[formulas]\nformal = 'M'\ncheerful = '2*M'\n"
        "small = {formula = 'M', model = 'other'}",
        encoding="utf-8",
    )
    return Path("marith.toml")


TYPO = (
    "'marith.toml' has no formula 'cheerfull', and no local model has that name; "
    "did you mean 'cheerful'?"
)


@pytest.mark.parametrize(
    "call",
    [
        lambda path: Options.from_file(path, "formal").overridden({"model": "cheerfull"}),
        lambda path: Options(file=path, model="cheerfull"),
    ],
    ids=["over", "Options"],
)
def test_a_mistyped_formula_of_a_file_is_never_asked_of_the_hub(
    online: list[str], personas: Path, call: Callable[[Path], object]
) -> None:
    Options.from_file(personas)
    start = time.perf_counter()
    with pytest.raises(ValueError, match="cheerfull") as caught:
        call(personas)
    assert time.perf_counter() - start < SECONDS
    assert TYPO in str(caught.value)
    assert not online


def test_a_mistyped_model_of_the_environment_is_refused(
    online: list[str], personas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARITH_FILE", str(personas))
    monkeypatch.setenv("MARITH_MODEL", "cheerfull")
    with pytest.raises(ValueError, match="did you mean 'cheerful'"):
        Options()
    assert not online


def test_a_file_names_models_of_its_own_and_a_call_those_that_are_here_or_have_an_owner(
    personas: Path,
) -> None:
    before = Options.from_file(personas, "formal")
    Path("here").mkdir()
    for name in ("own", "other", "pocket", "pocket-draft", "here", "owner/name", "./nowhere"):
        assert before.overridden({"model": name}).model == name
    with pytest.raises(FormulaError, match="there are formal, cheerful, small, and models by own"):
        before.overridden({"model": "nothing-like-it"})


def test_tokenizers_and_adapters_are_looked_for_alike(online: list[str]) -> None:
    assert "nothing of this name" in refusal(tiny_model(), tokenizer="nobody/no-tokenizer")
    with Engine.load("pocket") as engine, pytest.raises(ModelError, match="nothing of this name"):
        engine.generate("Hi", "a", {"a": Prompted(adapter="nobody/no-adapter")})
    assert online == ["nobody/no-tokenizer", "nobody/no-adapter"]


def test_a_model_and_a_tokenizer_may_be_paths(tiny_dir: str) -> None:
    with Engine.load(Path(tiny_dir)) as engine:
        text = engine.generate("a b", temperature=0, max_tokens=3).text
        term = {"same": Prompted(model=Path(tiny_dir))}  # type: ignore[arg-type]
        assert engine.generate("a b", "same", term, temperature=0, max_tokens=3).text == text
    loaded = tiny_model(seed=4, context_length=1024)
    with Engine.load(loaded, tokenizer=Path(tiny_dir)) as engine:
        assert engine.generate("a b", temperature=0, max_tokens=3).text == text
