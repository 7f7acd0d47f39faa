"""README quotes its figures from the pages that say how they were measured."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ONE_LINE = " ".join(README.split())
REFERENCE = ROOT / "docs" / "reference"
EFFECT = re.compile(
    r"^\| `(M[^`]*)` \| ([\d.]+ \[[\d., ]+\]) \| ([\d.]*) \| ([\d.]+) \|$", re.MULTILINE
)


def section(page: str, heading: str) -> str:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_effects_in_readme_are_those_of_their_page() -> None:
    effects = section("effects.md", "On a real model")
    rows = EFFECT.findall(README)
    assert len(rows) == 5
    for formula, toxicity, p, perplexity in rows:
        (row,) = [line for line in effects.splitlines() if line.startswith(f"| `{formula}` |")]
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[2] == toxicity
        assert cells[4].rstrip("=") == p
        assert cells[5].split()[0] == perplexity


def test_the_pirates_in_readme_are_those_of_their_page() -> None:
    effects = section("effects.md", "A system prompt, turned up")
    of, alone, formula, *perplexities = re.search(
        r"Of (\d+) answers, (\d+) contain .*? and (\d+) with the formula\. "
        r".*? from ([\d.]+) to ([\d.]+) and ([\d.]+) ",
        ONE_LINE,
    ).groups()
    names = "M", "pirate", "M + 1.5*(pirate - M)"
    for name, count, perplexity in zip(names, ("0", alone, formula), perplexities, strict=True):
        (row,) = [line for line in effects.splitlines() if line.startswith(f"| `{name}` |")]
        share, _, cost = (cell.strip().split(" ")[0] for cell in row.split("|")[2:5])
        assert float(share) == int(count) / int(of)
        assert round(float(cost), 1) == float(perplexity)


def per_second(*milliseconds: str) -> str:
    return " to ".join(str(round(1000 / float(each))) for each in milliseconds)


def test_the_speeds_in_readme_are_those_of_their_page() -> None:
    rows = re.findall(r"^\| ([^|]+, [^|]+) \| ([\d to]+) \| (\d+) \|$", README, re.MULTILINE)
    figures, gpu = section("performance.md", "Figures"), section("performance.md", "On a GPU")
    (ours,) = re.findall(r"^\| marith, 4 terms \| ([\d.]+) ", figures, re.MULTILINE)
    (theirs,) = re.findall(r"^\| transformers, one model \| ([\d.]+) ", figures, re.MULTILINE)
    xeon = re.search(
        r"`generate` takes [\d.]+ to ([\d.]+) ms, .* ([\d.]+) to ([\d.]+) with four:",
        " ".join(figures.split()),
    )
    found = [
        (per_second(ours), per_second(theirs)),
        (per_second(xeon[3], xeon[2]), per_second(xeon[1])),
    ]
    for requests in (1, 64):
        cells = re.search(
            rf"^\| 7.1 billion \| {requests} \| (\d+) \S+ \| (\d+) ", gpu, re.MULTILINE
        )
        found.append((cells[2], cells[1]))
    assert [(ours, theirs) for _, ours, theirs in rows] == found


def test_the_speed_of_the_real_model_is_that_of_its_page() -> None:
    (tokens,) = re.findall(r"writes \[([\d.]+) tokens a second\]", ONE_LINE)
    page = " ".join(section("performance.md", "llama.cpp as a backend").split())
    milliseconds = re.search(r"takes \d+ with one term and (\d+) with two", page)[1]
    assert float(tokens) == round(1000 / float(milliseconds), 1)


def test_the_speed_of_llama_cpp_is_that_of_its_page() -> None:
    found = re.search(r"takes ([\d.]+) to ([\d.]+) times as long as four texts of", ONE_LINE)
    table = section("performance.md", "llama.cpp as a backend")
    rows = re.findall(r"^\| \w+ \|.*?\|(.*?)\|.*\|$", table.split("by torch")[0], re.MULTILINE)
    ratios = [float(cell.strip(" *")) for cell in rows if re.fullmatch(r"[ *\d.]+", cell)]
    assert [min(ratios), max(ratios)] == [float(number) for number in found.groups()]


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
