"""`marith models` and `marith recipes`: what there is, from files and docstrings alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.near_models import saved, tokenizer_of
from typer.testing import CliRunner

from marith.cli import app
from marith.recipes import RECIPES
from marith.scoring.weights.locate import EMBEDDED, WEIGHTS
from marith.testing import tiny_model

POCKET = WEIGHTS / "pocket"
THINK, BOX = ("<think>", "</think>"), ("<box>", "</box>")


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def listed(cache: Path, *arguments: str) -> str:
    """What `marith models` prints over a cache of the hub, in a process without network."""
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    program = [sys.executable, "-m", "marith", "models", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with one whole model, and one whose weights were never downloaded."""
    for name, files in {
        "whole": ("config.json", "model.safetensors"),
        "half": ("config.json",),
    }.items():
        repository = tmp_path / f"models--someone--{name}"
        snapshot = repository / "snapshots" / ("0" * 40)
        snapshot.mkdir(parents=True)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0" * 40, encoding="utf-8")
        for file in files:
            shutil.copy(POCKET / file, snapshot / file)
    return tmp_path


def test_the_models_of_the_package_and_of_the_cache_are_listed(cache: Path) -> None:
    models = {model["name"]: model for model in json.loads(listed(cache, "--json"))}
    assert {*EMBEDDED, "pocket-polite", "pocket-rude"} < set(models)
    whole, half = models["someone/whole"], models["someone/half"]
    assert (whole["place"], whole["complete"]) == ("cache", True)
    assert (half["place"], half["complete"], half["weights"]) == ("cache", False, None)
    assert whole["architecture"] == half["architecture"] == "LlamaForCausalLM"
    assert whole["weights"] == models["pocket"]["weights"] > 1_000_000
    assert whole["context"] == models["pocket"]["context"] == 1024
    assert models["pocket"]["chat"]
    assert not models["pocket-toxicity"]["chat"]
    assert not models["pocket-polite"]["chat"]
    table = listed(cache)
    assert "\npocket " in table
    rows = {line.split()[0]: line.split()[-1] for line in table.splitlines() if line}
    assert (rows["model"], rows["pocket"], rows["pocket-polite"]) == ("chat", "yes", "-")
    assert "cache, incomplete" in table
    assert table.splitlines()[0].split()[:2] == ["model", "architecture"]


def test_one_model_is_described_by_its_directory(tiny_dir: str) -> None:
    code, out, _ = run("models", tiny_dir, "--json")
    (model,) = json.loads(out)
    assert code == 0
    assert (model["place"], model["complete"], model["context"]) == ("directory", True, 1024)


def test_a_named_model_is_described_with_the_memory_it_needs(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "data" / "llama-q4_k.gguf"
    code, out, _ = run("models", "pocket", str(file))
    assert code == 0
    assert "pocket: 5,868,800 weights, stored as BF16" in out
    assert "  dtype='bfloat16' takes 14 MB, 1,000 tokens of a lane take" in out
    assert f"{file}: 460,032 weights, stored as Q4_K" in out
    first = next(line for line in out.partition(f"{file}: ")[2].splitlines() if "takes" in line)
    assert first.startswith("  backend='llama.cpp' takes 309 kB")  # the one that suits such a file
    told = json.loads(run("models", str(file), "--json")[1])[0]
    assert (told["place"], told["format"], told["context"]) == ("file", "Q4_K", 256)


@pytest.mark.parametrize(
    ("name", "words"),
    [("/no/where", "/no/where"), ("someone/absent", "is not on this machine")],
)
def test_a_model_that_is_not_here_is_refused(name: str, words: str) -> None:
    code, out, err = run("models", name)
    assert (code, out) == (2, "")
    assert words in err


def test_every_recipe_is_listed_with_what_its_docstring_says() -> None:
    code, out, _ = run("recipes")
    assert code == 0
    for name, recipe in RECIPES.items():
        assert f"{name}(" in out
        assert (recipe.__doc__ or "?").splitlines()[0] in out
        assert name == "ensemble" or "arXiv" in run("recipes", name)[1]


def test_a_recipe_is_shown_as_one_calls_it_and_a_wrong_name_is_corrected() -> None:
    assert run("recipes", "cfg")[1].startswith("cfg(conditional, unconditional, strength=1.5)\n")
    code, out, err = run("recipes", "cgf")
    assert (code, out) == (2, "")
    assert "did you mean 'cfg'?" in err


def test_named_language_models_are_compared_with_the_first(tmp_path: Path) -> None:
    words = tuple(f"w{i}" for i in range(300))
    first, second, third = (
        saved(tmp_path / name, tiny_model(vocab=304), tokenizer_of(special, words))
        for name, special in (("r1", THINK), ("qwen", BOX), ("copy", THINK))
    )
    code, out, _ = run("models", first, second, third, "pocket", "pocket-toxicity")
    assert code == 0
    *_, of_second, _, of_third, _, of_pocket = out.splitlines()
    assert of_second.startswith("2 of 304 tokens differ, such as token 302: '<box>' in ")
    assert of_second.endswith("; on such a token, only the other terms of a formula count")
    assert of_third == f"{third!r} has the tokens of {first!r}"
    assert of_pocket.endswith("only an engine over bytes has formulas with terms of both")
    # A model without a tokenizer is still listed.
    for file in Path(second).glob("tokenizer*"):
        file.unlink()
    code, out, _ = run("models", first, second)
    assert code == 0
    assert "tokenizer" in out.splitlines()[-1]


def test_show_compares_the_models_of_a_formula_with_a_model(tmp_path: Path) -> None:
    words = tuple(f"w{i}" for i in range(300))
    base = saved(tmp_path / "r1", tiny_model(vocab=304), tokenizer_of(THINK, words))
    other = saved(tmp_path / "qwen", tiny_model(vocab=304), tokenizer_of(BOX, words))
    asked = ("show", "M + 0.5*(q - kind)", "--define", f'q=prompted(model="{other}")')
    code, out, _ = run(*asked, "--term", "kind=Be kind.", "--model", base)
    assert code == 0
    assert out.splitlines()[-1].startswith("vocabulary:   2 of 304 tokens differ, such as")
    assert "vocabulary" not in run(*asked, "--term", "kind=Be kind.")[1]
    file = tmp_path / "marith.toml"
    file.write_text('[model]\nover = "bytes"\n[terms]\nkind = "Be kind."', encoding="utf-8")
    for over in (("--term", "kind=Be kind.", "--over", "bytes"), ("--file", str(file))):
        code, out, _ = run(*asked, *over, "--model", base)
        assert code == 0
        assert out.splitlines()[-1] == "vocabulary:   the bytes, which all models share"
    code, _, err = run(*asked, "--over", "letters")
    assert code == 2
    assert err.endswith("--over must be tokens or bytes, not 'letters'\n")
    assert run(*asked, "--term", "kind=Be kind.", "--model", str(tmp_path))[0] == 2
