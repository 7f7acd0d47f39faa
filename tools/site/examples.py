"""Write the pages of docs/examples: one of all programs, and one for each notebook."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from tools.site.pages import DOCS, EXAMPLES

FOLDER = DOCS / "examples"
INTRODUCTION = (
    "# Examples\n\nMost of these programs run on the `pocket` model, which is in the package. Some "
    "of them are [notebooks](../index.md#examples), with their outputs."
)
PICTURE = "image/png"
LANGUAGES = {
    ".py": "python", ".yaml": "yaml", ".conf": "nginx", ".service": "ini", ".jsonl": "json",
    "": "dockerfile",
}  # fmt: skip


def example_pages() -> dict[str, str]:
    """Return the pages of docs/examples by their names on the site."""
    notebooks = {f"examples/{path.stem}.md": _notebook(path) for path in FOLDER.glob("*.ipynb")}
    parts = [INTRODUCTION]
    for path in sorted(FOLDER.iterdir()):
        if path.is_file() and path.suffix in LANGUAGES and not path.with_suffix(".ipynb").exists():
            code = path.read_text("utf-8")
            parts.append(f"## {path.name}\n\n```{LANGUAGES[path.suffix]}\n{code}```")
    return notebooks | {EXAMPLES: "\n\n".join(parts) + "\n"}


def write_pictures(folder: Path) -> None:
    """Write the plots of the notebooks, as their pages name them."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.ipynb"):
        outputs = (output for cell in _cells(path) for output in cell.get("outputs", ()))
        plots = (one["data"][PICTURE] for one in outputs if PICTURE in one.get("data", {}))
        for number, plot in enumerate(plots):
            (folder / f"{path.stem}_{number}.png").write_bytes(b64decode(plot))


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return cells


def _notebook(path: Path) -> str:
    """Return a notebook's cells, with the texts that they print and their plots, as Markdown."""
    parts = []
    pictures = 0
    for cell in _cells(path):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PICTURE in data:
                parts.append(f"![A plot of the cell above]({path.stem}_{pictures}.png)")
                pictures += 1
                continue
            shown = output.get("text") or data.get("text/plain", "")
            parts.append(f"```text\n{''.join(shown).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
