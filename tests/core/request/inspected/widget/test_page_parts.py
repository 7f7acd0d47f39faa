"""Modules of the page become one, and its style that of an element; `make browser` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from marith.request.inspected.widget.page_parts import PAGE, joined_module, shadow_style

WIDGET = Path(joined_module.__code__.co_filename).with_name("widget.js")
JOINED = joined_module(WIDGET)
STYLE = shadow_style(WIDGET.with_suffix(".css"))


def test_nothing_is_imported_and_the_render_function_alone_exported() -> None:
    statements = re.findall(r"^ *(?:import|export)\b.*|\bimport\(.*", JOINED, re.MULTILINE)
    assert statements == ["export default { render };"]


def test_no_name_of_the_module_is_declared_twice() -> None:
    declared = re.findall(r"^(?:async )?(?:const|let|class|function) (\w+)", _outermost(), re.M)
    assert {"card_module", "strip_module", "values_module", "render"} <= set(declared)
    for names in re.findall(r"^const \{([^}]*)\} = ", _outermost(), re.M):
        declared += re.findall(r"\w+", names)
    assert sorted(declared) == sorted(set(declared))


def test_what_a_module_takes_is_returned_by_one_before_it() -> None:
    returned: dict[str, set[str]] = {}
    scope = ""
    for line in JOINED.splitlines():
        if begun := re.match(r"const (\w+) = \(\(\) => \{", line):
            scope = begun[1]
        elif ended := re.match(r"return \{ (.*) \};$", line):
            returned[scope] = set(ended[1].split(", "))
    taken = re.findall(r"^const \{([^}]*)\} = (\w+);$", JOINED, re.MULTILINE)
    assert len(taken) == 5
    for names, module in taken:
        assert set(re.findall(r"\w+", names)) <= returned[module]
        first = JOINED.index(f"}} = {module};")
        assert JOINED.index(f"const {module} = ") < first


@pytest.mark.parametrize("name", ["values.js", "strip.js", "card.js"])
def test_the_parts_are_those_of_the_page(name: str) -> None:
    module = (PAGE / name).read_text(encoding="utf-8")
    assert JOINED.count(module.partition("\n")[0]) == 1
    body = re.sub(r"^import \{[^}]*\} from .*$|^export ", "", module, flags=re.MULTILINE)
    for piece in body.split("\n\n"):
        assert piece.strip() in JOINED


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


def test_the_style_is_that_of_the_page_and_dark_where_the_widget_is() -> None:
    page = (PAGE / "style.css").read_text(encoding="utf-8")
    assert ":root" not in STYLE
    assert "prefers-color-scheme" not in STYLE
    dark = re.findall(r":host\(\.dark\) \{[^}]*--paper: (#\w+)", STYLE)
    light = re.findall(r":host \{[^}]*--paper: (#\w+)", STYLE)
    assert [*light, *dark] == re.findall(r"--paper: (#\w+)", page)
    assert len(dark) == 1
    assert page[page.index("*, *::before") :] in STYLE
    assert STYLE.endswith(WIDGET.with_suffix(".css").read_text(encoding="utf-8"))


def _outermost() -> str:
    """The joined module without what is within its functions that are modules."""
    scope = re.compile(r"^(const \w+_module = )\(\(\) => \{$.*?^\}\)\(\);$", re.M | re.S)
    return scope.sub(r"\1;", JOINED)
