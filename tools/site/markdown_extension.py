"""Set `$…$` and `$$…$$` as MathML, and let keys scroll tables: an extension of Python-Markdown."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.treeprocessors import Treeprocessor

FORMULA = r"(?<!\$)(\$\$?)(?=\S)([^$]+?)(?<=\S)\1(?![\d$])"
# In Python-Markdown, code within a line has the priority 190, and escapes have 180.
AFTER_CODE = 185


class _Formulas(InlineProcessor):
    def handleMatch(  # type: ignore[override]  # noqa: N802
        self, match: re.Match[str], data: str
    ) -> tuple[str, int, int]:
        assert self.md is not None
        made = convert(match[2], display="block" if match[1] == "$$" else "inline")
        if "\\" in made:
            raise ValueError(f"latex2mathml does not know a command of {match[2]!r}")
        return self.md.htmlStash.store(made), *match.span()


class _Tables(Treeprocessor):
    def run(self, root: Element) -> None:
        for table in root.iter("table"):
            table.set("tabindex", "0")


class _Extension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.inlinePatterns.register(_Formulas(FORMULA, md), "formulas", AFTER_CODE)
        md.treeprocessors.register(_Tables(md), "tables", 0)


def makeExtension(**settings: Any) -> Extension:  # noqa: N802
    """Return the extension, as Python-Markdown asks a module for it."""
    return _Extension(**settings)  # type: ignore[no-untyped-call]
