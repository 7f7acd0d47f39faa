"""README quotes its figures from the pages that say how they were measured."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = ROOT / "docs" / "reference"
EFFECT = re.compile(
    r"^\| `(M[^`]*)` \| ([\d.]+ \[[\d., ]+\]) \| ([\d.]+ \[[\d., ]+\]) \|", re.MULTILINE
)


def section(page: str, heading: str) -> str:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_effects_in_readme_are_those_of_their_page() -> None:
    effects = section("effects.md", "On a real model")
    rows = EFFECT.findall(README)
    assert len(rows) == 4
    for formula, toxicity, perplexity in rows:
        (row,) = [line for line in effects.splitlines() if line.startswith(f"| `{formula}` |")]
        assert toxicity in row
        assert perplexity in row


def test_the_speed_in_readme_is_that_of_its_page() -> None:
    (ratio,) = re.findall(r"\*\*(0\.\d+)\*\* of the time per token", README)
    (row,) = re.findall(
        r"^\| marith, 4 terms \|.*$", section("performance.md", "Figures"), re.MULTILINE
    )[:1]
    assert f"**{ratio}**" in row


def test_the_speeds_on_a_gpu_are_those_of_their_page() -> None:
    text = " ".join(README.split())
    alone = re.search(r"write (\d+) tokens a second, and `generate` writes (\d+)", text)
    many = re.search(r"64 requests at once they write (\d+), and `generate` writes (\d+)", text)
    table = section("performance.md", "On a GPU")
    for requests, found in ((1, alone), (64, many)):
        assert found
        ours, theirs = found.groups()
        assert f"| 7.1 billion | {requests} | {theirs} tokens/s | {ours} tokens/s |" in table


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
