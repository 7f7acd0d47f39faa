"""The page of architectures has every architecture, as the tables say, and no stray difference."""

from __future__ import annotations

import re

from support.architectures.models import CLOSE, expected, names
from support.architectures.page import PAGE
from support.architectures.tables import ABOVE, REMARKS

MODELS = re.compile(r"^\*\*([a-z ]+)\*\*(.*):\n\n(.+(?:\n.+)*)", re.MULTILINE)
AT_MOST = re.compile(r"at most (\S+)")
BUT = re.compile(r"(?: but|,) `(\S+)` (\d\S+)")
SECTIONS = MODELS.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_has_every_architecture_as_the_tables_say() -> None:
    kinds = {
        name.removesuffix("\\*"): kind
        for kind, _, models in SECTIONS
        for name in models.replace("\n", " ").split("; ")
    }
    assert kinds == {name: expected(name) for name in names()}
    assert len(kinds) > 150


def test_differences_are_small_but_where_a_cause_is_known() -> None:
    measured = [float(number) for _, found, _ in SECTIONS for number in AT_MOST.findall(found)]
    assert len(measured) == 3
    assert max(measured) < CLOSE
    beyond = {
        name: float(number) for _, found, _ in SECTIONS for name, number in BUT.findall(found)
    }
    assert set(beyond) == ABOVE <= set(REMARKS)
    assert min(beyond.values()) >= CLOSE
