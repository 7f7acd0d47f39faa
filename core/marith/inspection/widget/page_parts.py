"""Parts of the page of `marith serve` as one module and one style, which need no server."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "serving" / "page"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{\s*:root (\{[^}]*\})\s*\}")


def joined_module(file: Path) -> str:
    """A module of JavaScript with all modules that it imports, as the text of one.

    Each imported one becomes a function that returns what it exports, so that no name of one meets
    a name of another. Imports are of names in braces, exports are before declarations.
    """
    scopes = dict[Path, str]()
    module = _linked(file, scopes)
    return "\n".join([*scopes.values(), module])


def _linked(file: Path, scopes: dict[Path, str]) -> str:
    """A module's text that takes what it imports from `scopes`, to which these are added first."""

    def taken(statement: re.Match[str]) -> str:
        imported = (file.parent / statement[2]).resolve()
        if imported not in scopes:
            scopes[imported] = _scope(imported, scopes)
        return f"const {{{statement[1]}}} = {_scope_name(imported)};"

    return _IMPORT.sub(taken, file.read_text(encoding="utf-8"))


def _scope(file: Path, scopes: dict[Path, str]) -> str:
    text = _linked(file, scopes)
    exported = ", ".join(name for _, name in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1", text)
    return f"const {_scope_name(file)} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _scope_name(file: Path) -> str:
    return f"{file.stem}_module"


def shadow_style(file: Path) -> str:
    """The page's style, and that of `file` over it, for the shadow root of an element.

    Its dark colours are those of an element of the class "dark": a notebook's theme is not always
    that of the system.
    """
    page = (PAGE / "style.css").read_text(encoding="utf-8")
    page = _DARK.sub(r":host(.dark) \1", page).replace(":root", ":host")
    return page + file.read_text(encoding="utf-8")
