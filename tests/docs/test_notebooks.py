"""The notebooks of docs/examples are their programs, executed."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import EXAMPLES, notebook, programs

LINK = re.compile(r"\]\((\.\./[^)#\s]+)")
LARGEST = 300_000  # bytes


def name(path: Path) -> str:
    return path.stem


def test_there_is_a_program_for_each_notebook() -> None:
    assert sorted(EXAMPLES.glob("*.ipynb")) == [path.with_suffix(".ipynb") for path in programs()]


@pytest.mark.parametrize("program", programs(), ids=name)
def test_a_notebook_has_the_cells_of_its_program_and_outputs(program: Path) -> None:
    path = program.with_suffix(".ipynb")
    made = nbformat.read(path, 4)
    nbformat.validate(made)
    cells = [(cell.cell_type, cell.source) for cell in made.cells]
    assert cells == [(cell.cell_type, cell.source) for cell in notebook(program).cells], (
        "make notebooks"
    )
    outputs = [output for cell in made.cells for output in cell.get("outputs", ())]
    assert outputs
    assert all(output.output_type != "error" for output in outputs)
    assert path.stat().st_size < LARGEST


@pytest.mark.parametrize("program", programs(), ids=name)
def test_every_relative_link_leads_somewhere(program: Path) -> None:
    links = LINK.findall(program.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (EXAMPLES / link).exists()] == []
