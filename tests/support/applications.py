"""Import the applications of docs/examples, so that tests run the code that readers see."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

Report = Callable[[str], None]
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def application(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
