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


def test_names_that_two_modules_have_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("const own = 1;\nexport function get() { return own; }\n")
    (tmp_path / "b.js").write_text(
        'import { get } from "./a.js";\nconst own = 2;\nexport const two = () => get() + own;\n'
    )
    entry = tmp_path / "c.js"
    entry.write_text(
        'import { get } from "./a.js";\nimport { two } from "./b.js";\n'
        "const own = 3;\nexport default [get(), two(), own];\n"
    )
    assert joined_module(entry) == (
        "const a_module = (() => {\nconst own = 1;\nfunction get() { return own; }\n"
        "return { get };\n})();\n\n"
        "const b_module = (() => {\nconst { get } = a_module;\nconst own = 2;\n"
        "const two = () => get() + own;\nreturn { two };\n})();\n\n"
        "const { get } = a_module;\nconst { two } = b_module;\n"
        "const own = 3;\nexport default [get(), two(), own];\n"
    )
