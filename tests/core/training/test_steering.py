"""`marith train`: what the command prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marith.cli import app


def cli(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["train-classifier", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_trains_and_prints_its_table(gpt2: str, warmth: Path, tmp_path: Path) -> None:
    out = tmp_path / "judge"
    sizes = ("--epochs", "2", "--rate", "3e-3", "--batch-size", "16", "--device", "cpu")
    code, printed, said = cli("--base", gpt2, "--data", str(warmth), "--out", str(out), *sizes)
    assert code == 0
    assert "learned every prefix of 116 texts (cold: 58, warm: 58)" in printed
    assert "│  whole │" in printed
    assert f'in a formula: classifier("{out}", label="warm")' in printed
    assert "training" in said
    assert {path.name for path in out.iterdir()} >= {
        "config.json", "model.safetensors", "tokenizer.json", "report.json",
    }  # fmt: skip
    assert json.loads((out / "report.json").read_text())["settings"]["rate"] == 3e-3
    code, _, said = cli("--base", gpt2, "--data", str(warmth), "--out", str(out), *sizes)
    assert (code, f"the directory {str(out)!r} is not empty" in said) == (2, True)


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "rate": (("--rate", "0"), "rate must be a number above 0, not 0.0"),
    "share": (("--held-out", "1"), "held_out must be a number above 0 and below 1, not 1.0"),
    "epochs": (("--epochs", "0"), "epochs must be a whole number from 1 to 10000, not 0"),
    "length": (
        ("--max-length", "9999"),
        "max_length must be a whole number from 1 to 1024, not 9999",
    ),
    "columns": (("--label-column", "text"), "two columns, not both in 'text'"),
    "device": (("--device", "abacus"), "device must be a device of torch, such as"),
    "data": (("--data", "nowhere.csv"), "cannot read 'nowhere.csv': No such file"),
    "base": (("--base", "pocket-nonsense"), "cannot train 'pocket-nonsense': We couldn't"),
    "column": (("--text-column", "body"), "line 1: there is no column 'body'; there are 'text', "),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_before_anything_is_loaded(
    case: str, warmth: Path, tmp_path: Path
) -> None:
    given, problem = BAD[case]
    asked = ("--base", "pocket-toxicity", "--data", str(warmth), "--out", str(tmp_path / "out"))
    code, printed, said = cli(*asked, *given)
    assert (code, printed) == (2, "")
    assert problem in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()
