"""The docstring of a folder's `__init__.py` lists the folder's files."""

from __future__ import annotations

import ast
from pathlib import Path

CORE = Path(__file__).parents[2] / "core" / "marith"


def test_every_folder_lists_its_files() -> None:
    for init in sorted(CORE.glob("*/**/__init__.py")):
        listed = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        files = {path.stem for path in init.parent.glob("*.py")} - {"__init__", "__main__"}
        missing = {name for name in files if f"`{name}`" not in listed}
        assert not missing, f"{init.relative_to(CORE)} lists no {sorted(missing)}"
