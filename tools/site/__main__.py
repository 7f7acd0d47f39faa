"""`python -m tools.site`, which is `make site`: write the site of the documentation."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import zensical

from tools.site.checking import faults
from tools.site.examples import example_pages, write_pictures
from tools.site.pages import (
    DECISIONS,
    DOCS,
    OTHERS,
    PROJECT,
    ROOT,
    decisions,
    navigation,
    with_links,
)

HERE = Path(__file__).parent
SITE = ROOT / "site"


def read_pages() -> dict[str, str]:
    """Return the Markdown of each page by its name on the site."""
    sources = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    pages = {
        name: with_links(path.read_text("utf-8"), path, name)
        for name, path in (sources | OTHERS).items()
    }
    listed = (f"- [{label}]({Path(name).name})" for label, name, _ in decisions())
    return pages | {DECISIONS: "\n".join(["# Decisions", "", *listed, ""])} | example_pages()


def configuration() -> str:
    """Return Zensical's configuration, with the project's words and the navigation."""
    sections = "".join(
        f"  {{ {json.dumps(section)} = ["
        + ", ".join(f"{{ {json.dumps(each.label)} = {json.dumps(each.name)} }}" for each in entries)
        + "] },\n"
        for section, entries in navigation().items()
    )
    added = (
        f"[project]\nsite_name = {json.dumps(PROJECT['name'])}\n"
        f"site_url = {json.dumps(PROJECT['urls']['Documentation'])}\n"
        f"site_description = {json.dumps(PROJECT['description'])}\n"
        f'nav = [\n  {{ "Home" = "index.md" }},\n{sections}]\n'
    )
    return (HERE / "zensical.toml").read_text("utf-8").replace("[project]\n", added, 1)


def texts_for_models(pages: dict[str, str]) -> dict[str, str]:
    """Return llms.txt, which lists the pages, and llms-full.txt, which contains them.

    The format is described at llmstxt.org. Links lead to the Markdown of the pages.
    """
    parts = [f"# {PROJECT['name']}", f"> {PROJECT['description']}"]
    for section, entries in navigation().items():
        lines = (f"- [{label}]({name}){about and f': {about}'}" for label, name, about in entries)
        parts += [f"## {section}", "\n".join(lines)]
    names = dict.fromkeys(each.name for entries in navigation().values() for each in entries)
    whole = (f"<!-- {name} -->\n\n{pages[name]}" for name in ("index.md", *names))
    return {"llms.txt": "\n\n".join(parts) + "\n", "llms-full.txt": "\n\n".join(whole)}


def build() -> None:
    """Write the site into `site/`. Raises RuntimeError for a link of Markdown that is broken."""
    pages = read_pages()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        shutil.copytree(DOCS / "images", work / "docs" / "images")
        write_pictures(work / "docs" / "examples")
        shutil.copy(HERE / "site.css", work / "docs")
        _write(pages, work / "docs")
        _write({"zensical.toml": configuration()}, work)
        zensical.build(str(work / "zensical.toml"), {"strict": True, "clean": True})
        _write(pages | texts_for_models(pages), work / "site")
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.move(work / "site", SITE)


def _write(texts: dict[str, str], folder: Path) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    build()
    found = faults(SITE)
    sys.exit("\n".join(found) or None)
