"""Find links of the built site that lead nowhere, and files that a browser would load elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

_OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
_STYLE = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"']+)", re.IGNORECASE)


class _Page(HTMLParser):
    """The ids of a page, its links, and the addresses that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.ids |= {attributes[name] for name in ("id", "name") if name in attributes}
        self.loaded |= {
            attributes[name] for name in ("src", "srcset", "poster") if name in attributes
        }
        if "href" in attributes and attributes.get("rel") != "canonical":
            (self.links if tag == "a" else self.loaded).add(attributes["href"])


def faults(site: Path) -> list[str]:
    """Return a line for each broken link and each outside host of the site."""
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        # The links of this page begin at the root of a server.
        if path.name == "404.html":
            continue
        name = path.relative_to(site)
        found += [f"{name} loads {url}" for url in page.loaded if _OUTSIDE.match(url)]
        for link in page.links | page.loaded:
            if _OUTSIDE.match(link) or link.startswith(("mailto:", "data:")):
                continue
            place, _, anchor = unquote(link).partition("#")
            target = (path.parent / place).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or not target.is_relative_to(site.resolve()):
                found.append(f"{name}: {link} leads to no file")
            elif anchor and target in pages and anchor not in pages[target].ids:
                found.append(f"{name}: {link} leads to no heading")
    for path in sorted(site.rglob("*.css")):
        found += [f"{path.name} loads {url}" for url in _STYLE.findall(path.read_text("utf-8"))]
    return found
