"""List the pages in the order of docs/index.md, and say where their links lead on the site."""

from __future__ import annotations

import re
import tomllib
from os.path import relpath
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Pages that are not in docs, by their names on the site.
OTHERS = {
    "overview.md": ROOT / "README.md",
    "map.md": ROOT / "core" / "README.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
}
EXAMPLES = "examples/index.md"
DECISIONS = "decisions/index.md"
_FOLDERS = {DOCS / "examples": EXAMPLES, DOCS / "decisions": DECISIONS}
_NAMES = {path: name for name, path in OTHERS.items()} | _FOLDERS
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
# The picture of README is written in HTML, which has another one for readers without motion.
_SOURCE = re.compile(r'(?<=src=")[^":]+(?=")|(?<=srcset=")[^":]+(?=")')
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
# The description of a page follows its link.
_ABOUT = re.compile(r".*\): (.+)$")


class Entry(NamedTuple):
    """A page in the navigation: its label, its name on the site, and the words of docs/index.md."""

    label: str
    name: str
    about: str


def name_of(target: Path) -> str | None:
    """Return the name of a file on the site, or None if the file is not there."""
    if target in _NAMES or not target.is_relative_to(DOCS):
        return _NAMES.get(target)
    # The page of a notebook shows its program too.
    notebook = target.with_suffix(".ipynb")
    return (target.with_suffix(".md") if notebook.exists() else target).relative_to(DOCS).as_posix()


def with_links(text: str, source: Path, name: str) -> str:
    """Return the Markdown of `source` as the page `name` of the site has it."""

    def link(match: re.Match[str]) -> str:
        label, path, anchor = match[1], match[2], match[3] or ""
        if not path or "://" in path:
            return match[0]
        target = (source.parent / path).resolve()
        to = name_of(target)
        if to is None:
            place = target.relative_to(ROOT).as_posix()
            return f"[{label}]({PROJECT['urls']['Source']}/blob/main/{place}{anchor})"
        if to.startswith("examples/") and not to.endswith(".md"):
            to, anchor = EXAMPLES, f"#{target.name.lower().replace('.', '')}"
        return f"[{label}]({relpath(to, Path(name).parent)}{anchor})"

    def picture(match: re.Match[str]) -> str:
        target = (source.parent / match[0]).resolve()
        return relpath(target.relative_to(DOCS), Path(name).parent)

    pieces = _FENCED.split(text)
    pieces[::2] = [_SOURCE.sub(picture, _LINK.sub(link, piece)) for piece in pieces[::2]]
    return "".join(pieces)


def navigation() -> dict[str, list[Entry]]:
    """Return the pages that docs/index.md lists under each of its headings, and all decisions."""
    sections: dict[str, list[Entry]] = {}
    for heading, text in _SECTION.findall((DOCS / "index.md").read_text("utf-8")):
        found: dict[str, Entry] = {}
        for line in text.splitlines():
            about = _ABOUT.match(line)
            for label, path, _ in _LINK.findall(line):
                if name := name_of((DOCS / path).resolve()):
                    words = about[1].rstrip(".") if about else ""
                    found.setdefault(name, Entry(label, name, words))
        sections[heading] = [*found.values()]
    return sections | {"Decisions": decisions()}


def decisions() -> list[Entry]:
    """Return the pages of docs/decisions in their order, each with its title as the label."""
    pages = sorted((DOCS / "decisions").glob("*.md"))
    titles = (page.read_text("utf-8").splitlines()[0].removeprefix("# ") for page in pages)
    names = (page.relative_to(DOCS).as_posix() for page in pages)
    return [Entry(title, name, "") for title, name in zip(titles, names, strict=True)]
