"""Each file is named in the docstring of its folder's `__init__.py`, and in the map of the core."""

from __future__ import annotations

import ast
import re
from pathlib import Path

CORE = Path(__file__).parents[2] / "core" / "marith"


def test_every_folder_lists_its_files() -> None:
    for init in sorted(CORE.glob("*/**/__init__.py")):
        listed = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        files = {path.stem for path in init.parent.glob("*.py")} - {"__init__", "__main__"}
        missing = {name for name in files if f"`{name}`" not in listed}
        assert not missing, f"{init.relative_to(CORE)} lists no {sorted(missing)}"


def test_the_map_names_every_file_and_no_other() -> None:
    """But for files of a command or of one strategy: the map names their folders."""
    text = (CORE.parent / "README.md").read_text(encoding="utf-8")
    section = text.split("## What is decided where")[1].split("## ")[0]
    named = {*re.findall(r"`(\w+)/?`", section)}
    rooms = [CORE, *(CORE.parents[1] / name for name in ("langchain_marith", "llamaindex_marith"))]
    paths = [path for room in rooms for path in room.rglob("*.py") if path.parent != CORE]
    folders = {path.parent.name for path in paths}
    missing = {
        str(path)
        for path in paths
        if not path.stem.startswith("__")
        and path.stem not in named
        and (path.parent.name not in named or path.parent.parent == CORE)
    }
    assert not missing
    calls = {"generate", "stream", "score", "next_logprobs", "tune", "calibrate"}
    assert named <= {path.stem for path in paths} | folders | calls
