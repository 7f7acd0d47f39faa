"""The chain that is detoxified by its model line: nothing else differs.

How much less toxic its answers are is measured in `tests/evidence`.
"""

from __future__ import annotations

from support.applications import application

detox = application("langchain_detox")


def test_the_two_models_differ_in_the_formula_alone() -> None:
    bare, detoxified = (model.chosen() for model in (detox.BARE, detox.DETOXIFIED))
    assert {name for name in bare if bare[name] != detoxified[name]} == {"formula"}
    assert detox.chain(detox.BARE).get_graph().to_json().keys() == {"nodes", "edges"}
