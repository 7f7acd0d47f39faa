"""No file of the page makes markup or code of text; `make browser` opens it."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

FOLDER = files("marith.serving") / "page"
FILES = sorted(FOLDER.iterdir(), key=lambda file: file.name)
WIDGET = files("marith.request.inspected.widget")  # shows parts of the page in a notebook
OF_BROWSERS = [*FILES, WIDGET / "widget.js", WIDGET / "widget.css"]
# What would make markup, styles or code of a text, or keep something beyond the page.
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "DOMParser", "createContextualFragment", "setHTML", "srcdoc", "cssText", "javascript:",
    'setAttribute("style"', "localStorage", "sessionStorage", "indexedDB", ".cookie",
    "importScripts", "XMLHttpRequest", "WebSocket", "sendBeacon", "http:", "https:",
)  # fmt: skip
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("file", OF_BROWSERS, ids=lambda file: file.name)
def test_no_file_makes_markup_or_code_of_text(file: object) -> None:
    text = file.read_text(encoding="utf-8").replace(SVG_NAMESPACE, "")  # type: ignore[attr-defined]
    assert [word for word in FORBIDDEN if word in text] == []
    if file.name.endswith(".css"):  # type: ignore[attr-defined]
        assert not re.search(r"@import|url\(|expression\(", text)


def test_the_page_asks_for_its_own_files_alone() -> None:
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=\"/page/)|<style|\sstyle=|\son\w+=", html)
    names = {file.name for file in FILES}
    for text in (html, *((FOLDER / name).read_text("utf-8") for name in names if ".js" in name)):
        for name in re.findall(r'(?:href|src)="/page/([^"]+)"|from "\./([^"]+)"', text):
            assert (name[0] or name[1]) in names
