"""`--import`: modules of the user's own for a command, and `marith recipes`, which lists them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

import marith
from marith import Engine
from marith.cli import app
from marith.formula.text.calls import CALLS
from marith.recipes import RECIPES

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "own_methods.py"
KIND = "You are kind."
METHODS = '''
import marith
from marith import Formula

def halved(model: Formula, other: Formula, share: float = 0.5) -> Formula:
    """(1 − s)·M + s·M_other.

    Somebody (2024, arXiv 0000.00000).
    """
    return (1 - share) * model + share * other
'''
POINTS = """[marith_methods]
halved = offered_methods:halved
broken = absent_module:broken
union = offered_methods:halved
"""
# The program that the arguments ask of the command line, and what of torch it imported.
WITHOUT_TORCH = """
import sys
from marith.cli import app
try: app(sys.argv[1:])
except SystemExit as end: assert not end.code, end.code
assert not {"torch", "transformers", "numpy"} & set(sys.modules)
"""


@pytest.fixture(autouse=True)
def _own() -> Iterator[None]:
    """Each test defines and imports for itself."""
    with patch.dict(CALLS), patch.object(sys, "path", [*sys.path]):
        yield
    for name in ("own_methods", "my_methods", "loud"):
        sys.modules.pop(name, None)


@pytest.fixture
def methods(tmp_path: Path) -> Path:
    path = tmp_path / "my_methods.py"
    path.write_text(f'{METHODS}\nmarith.define("halved", halved)\n', encoding="utf-8")
    return path


def run(*arguments: str, **options: Any) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), **options)
    return result.exit_code, result.stdout, result.stderr


def in_a_process(folder: Path, *arguments: str) -> str:
    """What a command prints in a process that finds the modules of a folder, and no torch."""
    paths = [str(folder), str(Path(marith.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_answers_on_the_command_line_as_in_python() -> None:
    given = ("--formula", "edt(kind, 0.25)", "--term", f"kind={KIND}", "--seed", "1")
    short = ("generate", "Can you help me?", "--max-tokens", "8", *given)
    assert "'edt' has no meaning in a formula" in run(*short)[2]
    code, out, err = run(*short, "--import", str(EXAMPLE))
    assert code == 0, err
    ask = Engine.shared("pocket").generate
    answer = ask("Can you help me?", "edt(kind, 0.25)", {"kind": KIND}, max_tokens=8, seed=1)
    assert out == answer.text + "\n"


def test_a_persona_file_calls_what_was_imported_and_imports_nothing(
    methods: Path, tmp_path: Path
) -> None:
    file = tmp_path / "marith.toml"
    file.write_text(f'[terms]\nk = "{KIND}"\n[formulas]\nwarm = "halved(M, k)"', encoding="utf-8")
    asked = ("generate", "Hi", "--file", str(file), "--persona", "warm", "--max-tokens", "3")
    assert "'halved' has no meaning" in run(*asked)[2]
    assert run(*asked, "--import", str(methods))[0] == 0
    text = file.read_text(encoding="utf-8")
    file.write_text(f'[model]\nimport = "{methods}"\n{text}', encoding="utf-8")
    assert "there is no option 'import'" in run(*asked, "--import", str(methods))[2]


@pytest.mark.parametrize("named", ["my_methods", "my_methods.py"])
def test_a_module_of_the_folder_is_imported_by_its_name_or_its_file(
    methods: Path, named: str
) -> None:
    shown = in_a_process(methods.parent, "show", "halved(M, a, 0.2)", "--import", named)
    assert shown.startswith("0.8*M + 0.2*a\n")


@pytest.mark.parametrize(
    ("name", "code", "problem"),
    [
        ("absent.py", None, "the file does not exist"),
        ("wrong.py", "1/0", "ZeroDivisionError: division by zero"),
        ("ends.py", "import sys\nsys.exit()", "'ends.py' ends the program; put its code under"),
        ("json.py", "", "'json' is another module; rename the file"),
        ("clash.py", "import marith\nmarith.define('union', marith.relu)", "'union' already"),
    ],
)
def test_an_import_that_fails_is_reported_in_one_sentence(
    name: str, code: str | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if code is not None:
        Path(name).write_text(code, encoding="utf-8")
    exit_code, out, err = run("show", "M", "--import", name)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"marith: --import {name!r}")
    assert problem in err
    assert err.count("\n") == 1


def test_methods_of_packages_are_listed_apart_and_without_torch(tmp_path: Path) -> None:
    (tmp_path / "offered_methods.py").write_text(METHODS, encoding="utf-8")
    info = tmp_path / "offering-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    built_in, own = in_a_process(tmp_path, "recipes").split("\nMethods from other packages\n\n")
    assert own == (
        "broken\n"
        "    'broken' of offering cannot be imported from 'absent_module:broken': "
        "No module named 'absent_module'\n\n"
        "halved(model, other, share=0.5)\n"
        "    (1 − s)·M + s·M_other.\n\n"
        "    Somebody (2024, arXiv 0000.00000).\n"
        "    From the module offered_methods.\n"
    )
    assert all(f"{name}(" in built_in for name in RECIPES)
    assert in_a_process(tmp_path, "recipes", "halved") == own.partition("\n\n")[2]
