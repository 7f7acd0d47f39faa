"""Every program of docs/examples runs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from support.documents import ROOT, name

from marith.formula.text.calls import CALLS

FOLDER = ROOT / "docs" / "examples"
REAL = FOLDER / "real_model.py"  # run by `make real`, which fetches its model
EXAMPLES = sorted({*FOLDER.glob("*.py")} - {REAL})
NEEDS = {"ray_serve.py": "ray"}  # run by `make ray`, in an environment that has it
# Of a file among the arguments, the program reads the first lines.
ARGUMENTS = {"choose_faithful.py": ["pocket", "float32", "house_rules.jsonl"]}


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
    arguments = ARGUMENTS.get(example.name, [])
    monkeypatch.setattr(sys, "argv", [str(example), *arguments])
    for file in {path.name for path in FOLDER.iterdir()}.intersection(arguments):
        lines = (FOLDER / file).read_text(encoding="utf-8").splitlines(keepends=True)
        Path(file).write_text("".join(lines[:3]), encoding="utf-8")
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_example_on_a_real_model_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"there is no .*: run `.*real_models`"):
        runpy.run_path(str(REAL), run_name="__main__")


def test_the_configuration_of_the_proxy_has_two_replicas_of_one_model() -> None:
    proxy = yaml.safe_load((FOLDER / "litellm.yaml").read_text(encoding="utf-8"))
    assert [one["model_name"] for one in proxy["model_list"]] == ["polite", "polite"]
