"""Write the pages of docs/examples: one of all programs, and one for each notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.site.pages import DOCS, EXAMPLES

FOLDER = DOCS / "examples"
INTRODUCTION = "# Examples\n\nThese programs run on the `pocket` model, which is in the package."
LANGUAGES = {".py": "python", ".yaml": "yaml", ".conf": "nginx", "": "dockerfile"}


def example_pages() -> dict[str, str]:
    """Return the pages of docs/examples by their names on the site."""
    notebooks = {f"examples/{path.stem}.md": _notebook(path) for path in FOLDER.glob("*.ipynb")}
    parts = [INTRODUCTION]
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in LANGUAGES:
            code = path.read_text("utf-8")
            parts.append(f"## {path.name}\n\n```{LANGUAGES[path.suffix]}\n{code}```")
    return notebooks | {EXAMPLES: "\n\n".join(parts) + "\n"}


def _notebook(path: Path) -> str:
    """Return a notebook's cells, and the texts that they print, as Markdown."""
    parts = []
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            shown = output.get("text") or output.get("data", {}).get("text/plain", "")
            parts.append(f"```text\n{''.join(shown).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
