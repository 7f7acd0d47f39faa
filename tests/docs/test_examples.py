"""What the documents say is run: their code, their output and their commands."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from marith.formula.text.calls import CALLS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([README, ROOT / "core" / "README.md", *(ROOT / "docs").rglob("*.md")])
REAL = ROOT / "docs" / "examples" / "real_model.py"  # run by `make real`, which fetches its model
EXAMPLES = sorted({*(ROOT / "docs" / "examples").glob("*.py")} - {REAL})
NEEDS = {"ray_serve.py": "ray"}  # run by `make ray`, in an environment that has it
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"--[a-z][a-z-]*")


def blocks(page: Path, language: str) -> list[str]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [code for kind, code in found if kind == language]


def with_block(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def outputs(page: Path) -> dict[int, str]:
    """For each `python` block that a `text` block follows at once: its place, and that text."""
    text = page.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    python = [block for block in found if block[1] == "python"]
    return {
        python.index(block): after[2]
        for block, after in pairwise(found)
        if block[1] == "python" and after[1] == "text"
        if not text[block.end() : after.start()].strip()
    }


def commands(page: Path) -> list[list[str]]:
    """The arguments of every `marith` command in the `sh` blocks of a page."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("marith ")]


def help_of(arguments: list[str]) -> str:
    from marith.cli import app

    result = CliRunner().invoke(
        app, arguments, prog_name="marith", env={"COLUMNS": "100", "NO_COLOR": "1"}
    )
    assert result.exit_code == 0, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.mark.parametrize("page", with_block("python"), ids=name)
@patch.dict(CALLS)  # a page may define names, which are its own
def test_every_python_block_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    said = outputs(page)
    for i, code in enumerate(blocks(page, "python")):
        printed = io.StringIO()
        # Without this file's own `annotations`, which classes of a page could not be read by.
        compiled = compile(code, f"{name(page)}[{i}]", "exec", dont_inherit=True)
        with contextlib.redirect_stdout(printed):
            exec(compiled, namespace)
        if i in said:
            assert printed.getvalue() == said[i]


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("example", EXAMPLES, ids=name)
@patch.dict(CALLS)
def test_every_example_runs_and_says_something(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if example.name in NEEDS:
        pytest.importorskip(NEEDS[example.name])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_example_on_a_real_model_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"there is no .*: run `.*real_models`"):
        runpy.run_path(str(REAL), run_name="__main__")


@pytest.mark.parametrize("page", with_block("sh"), ids=name)
def test_every_command_in_the_documents_and_its_options_exist(page: Path) -> None:
    for words in commands(page):
        name = words[: 2 if words[0] == "eval" else 1]
        known = set(OPTION.findall(help_of([*name, "--help"])))
        assert {word for word in words if OPTION.fullmatch(word)} <= known
