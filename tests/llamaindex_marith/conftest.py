"""How a test makes its model: with random weights, or with a script."""

from __future__ import annotations

from typing import Any

import pytest
from support.llamaindex_calls import Make

from llamaindex_marith import Marith

KNOWN = {"temperature": 0.9, "seed": 5, "max_tokens": 24}
FORMULA = {"formula": "2*a - 0.5*b", "terms": {"a": "a b c", "b": "x y z"}}
NOON = '<tool_call>{"name": "clock", "arguments": {"place": "Málaga"}}</tool_call>'
RIVER = '<tool_call>{"name": "map", "arguments": {"river": "Ebro", "scale": 2}}</tool_call>'
ADA = '{"name": "Ada", "ages": [3, 36]}'
SCRIPT = [
    (r"<\|tool\|>.*<\|end\|><\|assistant\|>$", "It is noon there."),
    ("clock and map", f"Both, then.{NOON}{RIVER}"),
    ("What time", f"I look.{NOON}"),
    ('"name": "Sailor".*Who sails', f'<tool_call>{{"name": "Sailor", "arguments": {ADA}}}'),
    ("Be brief.*Who sails", ADA.replace("Ada", "Eve")),
    ("Who sails", ADA),
    ("", "Good day."),
]


@pytest.fixture
def make(tiny_dir: str) -> Make:
    """A model with random weights."""

    def made(**options: Any) -> Marith:
        return Marith(**{"model": tiny_dir, **KNOWN, **FORMULA, **options})

    return made


@pytest.fixture(scope="session")
def scripted_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that returns the replies of `SCRIPT`."""
    from marith.testing import save_scripted

    return save_scripted(tmp_path_factory.mktemp("scripted"), SCRIPT)


@pytest.fixture
def scripted(scripted_dir: str) -> Make:
    """A model that returns the replies of `SCRIPT`, through a formula of two terms."""

    def made(**options: Any) -> Marith:
        style: dict[str, Any] = {"formula": "1.5*M - 0.5*plain", "terms": {"plain": "Be plain."}}
        return Marith(**{"model": scripted_dir, "temperature": 0, **style, **options})

    return made
