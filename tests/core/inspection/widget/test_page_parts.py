"""Modules of the page become one; `make browser` runs them."""

from __future__ import annotations

import re
from pathlib import Path

from marith.inspection.widget.page_parts import joined_module

WIDGET = Path(joined_module.__code__.co_filename).with_name("widget.js")
JOINED = joined_module(WIDGET)


def test_nothing_is_imported_and_the_render_function_alone_exported() -> None:
    statements = re.findall(r"^ *(?:import|export)\b.*|\bimport\(.*", JOINED, re.MULTILINE)
    assert statements == ["export default { render };"]
