"""Make the notebooks of docs/examples from the programs of the same names, and execute them.

Run as `python -m tools.notebooks [NAME …]`, or as `make notebooks`. A program is a notebook if it
has cells in jupytext's percent format. Numbers of cells, times and versions are left out, so that a
new run changes only outputs that are different.
"""

import re
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
# Widgets are left out, because they show nothing without their kernel.
LIVE = "application/vnd.jupyter.widget-view+json"
PYTHON = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_CELL = re.compile(r"^# %%", re.MULTILINE)


def programs() -> list[Path]:
    """Return the programs that are notebooks."""
    return [path for path in sorted(EXAMPLES.glob("*.py")) if _CELL.search(path.read_text("utf-8"))]


def notebook(program: Path) -> Any:
    """Return a program as a notebook that is not executed."""
    read = jupytext.read(program)
    read.metadata = nbformat.from_dict(PYTHON)
    for number, cell in enumerate(read.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", nbformat.from_dict({})
    return read


def executed(program: Path) -> Any:
    """Return a program as a notebook with its outputs."""
    made = notebook(program)
    resources = {"metadata": {"path": str(program.parent)}}
    NotebookClient(
        made,
        timeout=1200,
        resources=resources,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
    ).execute()
    made.metadata = nbformat.from_dict(PYTHON)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _is_shown(output)]
    return made


def _is_shown(output: Any) -> bool:
    """Return True if an output is kept: it is no widget, and no log or progress bar."""
    return LIVE not in output.get("data", ()) and output.get("name") != "stderr"


def main() -> None:
    """Write the notebooks of the named programs, or all notebooks."""
    for program in programs():
        if not sys.argv[1:] or program.stem in sys.argv[1:]:
            nbformat.write(executed(program), program.with_suffix(".ipynb"))
            print(program.with_suffix(".ipynb"), flush=True)


if __name__ == "__main__":
    main()
