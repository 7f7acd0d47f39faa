"""The page of the conformance suite: it counts and lists the checks that there are."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from llamaindex_marith import testing
from llamaindex_marith.testing.suite import TOPICS, LLMConformance, checks
from tools import conformance
from tools.clients.openai_like_failures import THEIRS

DOCS = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (DOCS / "llamaindex_conformance.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+) \| (\d+) \| (.+) \|$", re.MULTILINE)


def rows(topic: str) -> dict[str, tuple[int, list[str]]]:
    """A topic's table: cases and cells, by check."""
    table = PAGE.partition(f"\n## {topic}\n")[2].partition("\n## ")[0]
    return {
        name: (int(count), re.split(r" (?<!\\)\| ", cells))
        for name, count, cells in ROW.findall(table)
    }


@pytest.mark.parametrize("topic", checks())
def test_every_check_is_in_the_table_of_its_topic(topic: str) -> None:
    counts = {name: count for name, (count, _) in rows(topic).items()}
    expected = {conformance.words(name): count for name, count in checks()[topic].items()}
    assert counts == expected, "run `make peers`"


@pytest.mark.parametrize("topic", checks())
def test_ours_passes_every_check_on_the_page(topic: str) -> None:
    for name, (_, cells) in rows(topic).items():
        assert len(cells) == len(conformance.LLMS)
        assert cells[0] == "passed", name


def test_the_page_lists_what_fails_over_the_wire() -> None:
    section = PAGE.partition("\n## Over the wire\n")[2].partition("\n## ")[0]
    names = [name for topic in checks().values() for name in topic]
    for check, (cases, why) in THEIRS.items():
        assert check in names
        listed = ", ".join(f"`{case}`" for case in cases) or "all"
        assert f"| {conformance.words(check)} | {listed} | {why} |" in section
    counts = {name: count for topic in checks().values() for name, count in topic.items()}
    failing = sum(len(cases) or counts[check] for check, (cases, _) in THEIRS.items())
    assert f"{sum(counts.values())} cases {sum(counts.values()) - failing} pass" in section
    assert f"The other {failing} fail" in section


def test_the_page_counts_the_checks() -> None:
    first, *_ = conformance.summary(checks(), {})
    assert first in PAGE, "run `make peers`"


def test_the_suite_has_every_check_once() -> None:
    names = [name for topic in checks().values() for name in topic]
    assert len(set(names)) == len(names)
    helpers = [n for t in TOPICS for n in vars(t) if not n.startswith("__")]
    assert len(set(helpers)) == len(helpers), "one topic hides what another has"
    inherited = {name for name in dir(LLMConformance) if name.startswith("test_")}
    assert inherited == set(names)


def test_a_cell_shows_what_failed_and_why() -> None:
    case, cell, first_line = conformance.Case, conformance.cell, conformance.first_line
    passed, skipped = case("chat", "passed"), case("chat", "skipped", "not offered: tools")
    failed = case("achat", "failure", first_line("AssertionError: a | b\nassert 1 == 2"))
    assert cell([passed, passed]) == "passed"
    assert cell([skipped]) == "not offered"
    assert cell([passed, failed, failed]) == "**failed** 2 of 3: `a \\| b`"
    assert cell([failed]) == "**failed**: `a \\| b`"
    assert len(first_line("x" * 500)) == conformance.LONGEST


def test_the_example_of_the_package_takes_each_parameter_alone() -> None:
    example = re.search(r"( {8}def options.*?)\n\n`pip", str(testing.__doc__), re.DOTALL)
    assert example
    defined: dict[str, Any] = {}
    exec(dedent(example[1]), defined)
    for parameters in ({}, {"stop": ["a"]}, {"seed": 2}, {"temperature": 0.0}):
        assert defined["options"](None, **parameters) == parameters
    assert defined["options"](None, max_tokens=4, seed=2) == {"max_new_tokens": 4, "seed": 2}
