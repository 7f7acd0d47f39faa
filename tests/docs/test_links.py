"""Links lead to pages and headings that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "core" / "README.md"]
PAGES = sorted([*OTHERS, *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```\w*\n.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub makes anchors of them."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        again = sum(1 for each in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", each))
        found.add(f"{slug}-{again}" if again else slug)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    missing = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.resolve())):
            missing.append(link)
    assert missing == []
