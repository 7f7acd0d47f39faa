"""The training script runs from a bare folder to a model that loads and speaks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from marith import Engine, Stop
from marith.scoring.weights.locate import WEIGHTS
from tools.pocket import tokenizer
from tools.pocket.train import main


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(main)
    return CliRunner().invoke(app, list(arguments))


def test_a_short_training_ends_with_a_draft_that_speaks(tmp_path: Path) -> None:
    shutil.copytree(WEIGHTS / "pocket", tmp_path / "pocket")
    done = run(
        "--out", str(tmp_path), "--only", "draft", "--draft-tokens", "4000", "--held-out", "4"
    )
    assert done.exit_code == 0, done.output
    tokenizer.save(tokenizer.load(tmp_path / "pocket"), tmp_path / "pocket-draft")
    with Engine.load(str(tmp_path / "pocket-draft")) as engine:
        assert engine.generate("Hello!", stop=Stop(3)).usage.prompt_tokens > 2


@pytest.mark.parametrize("text", ["Grüße 12345!", "日本", "a\nb"])
def test_the_tokenizer_splits_digits_and_keeps_every_byte(text: str) -> None:
    reader = tokenizer.load(WEIGHTS / "pocket")
    tokens = reader(text, add_special_tokens=False).input_ids
    assert reader.decode(tokens) == text
    assert len(reader("12345", add_special_tokens=False).input_ids) == 5
