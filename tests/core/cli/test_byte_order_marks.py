"""Files that an editor began with a byte order mark are read like files without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marith import Options
from marith.cli import app
from marith.cli.files import lines
from marith.formula.tree.terms import NGram
from marith.options.persona_file import load_file
from marith.scoring.terms.ngram_scorer import _texts
from marith.serving.server_settings import read_keys
from marith.serving.wire.wire_fields import parsed

MARK = "\ufeff"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "given.txt"


def marked(file: Path, text: str) -> Path:
    file.write_text(MARK + text, encoding="utf-8")
    return file


def test_a_persona_file_may_begin_with_a_mark(file: Path) -> None:
    marked(file, '[terms]\nformal = "You are formal."\n[formulas]\nstiff = "2*formal - M"\n')
    assert [*load_file(file).formulas] == ["stiff"]
    assert Options.from_file(file, "stiff").formula == "2*formal - M"


def test_a_schema_and_standard_input_may_begin_with_a_mark(file: Path) -> None:
    schema = marked(file, json.dumps({"type": "object", "properties": {}}))
    asked = ["generate", "-", "--schema", str(schema), "--max-tokens", "9"]
    told = CliRunner().invoke(app, asked, input=f"{MARK}Say something.".encode())
    assert told.exit_code == 0, told.output


def test_files_of_prompts_and_of_an_n_gram_may_begin_with_a_mark(file: Path) -> None:
    marked(file, "M\n2*M\n")
    assert lines(file) == ["M", "2*M"]
    assert [*_texts(NGram(path=str(file)))] == ["M", "2*M"]


def test_a_file_of_keys_may_begin_with_a_mark(file: Path) -> None:
    file.touch(mode=0o600)
    assert read_keys(marked(file, "sk-first-key\n")) == ("sk-first-key",)


def test_the_body_of_a_request_may_begin_with_a_mark() -> None:
    assert parsed(f'{MARK}{{"model": ""}}'.encode()) == {"model": ""}
