"""A notebook gets an inspection as plain data beside a module that is the same for all."""

from __future__ import annotations

import json
import re
import sys

import pytest
import traitlets
from support.example_inspection import inspection

from marith import RequestError
from marith.inspection.widget.inspection_widget import InspectionWidget, joined_module

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e`${alert(1)}`"


def test_the_traits_are_plain_data() -> None:
    whole = inspection()
    widget = whole.widget()
    assert isinstance(widget, InspectionWidget)
    state = widget.get_state(["_data", "_esm", "_style", "chosen"])
    assert json.loads(json.dumps(state, allow_nan=False)) == state
    assert state["_data"] == whole.as_dict()
    assert state["chosen"] is None


def test_text_of_a_model_is_data_and_never_code() -> None:
    hostile, plain = inspection(HOSTILE).widget(), inspection().widget()
    assert hostile.get_state("_data")["_data"]["positions"][0]["text"] == HOSTILE
    for name in ("_esm", "_style"):
        assert getattr(hostile, name) == getattr(plain, name)


def test_the_chosen_token_is_one_of_the_text() -> None:
    widget = inspection().widget()
    values: list[object] = []
    widget.observe(lambda change: values.append(change["new"]), "chosen")
    widget.chosen = 0
    widget.set_state({"chosen": None})
    assert values == [0, None]
    for index in (1, -1):
        with pytest.raises(
            RequestError, match=f"chosen is {index}; it can be from 0 to 0, or None"
        ):
            widget.chosen = index
    with pytest.raises(traitlets.TraitError, match="expected an int"):
        widget.chosen = "0"
    assert widget.chosen is None


def test_without_anywidget_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, InspectionWidget.__module__)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(RequestError, match=r"pip install 'marith\[notebook\]'"):
        inspection().widget()
    monkeypatch.delitem(sys.modules, "anywidget")
    monkeypatch.setitem(sys.modules, "traitlets", None)
    with pytest.raises(ModuleNotFoundError, match="traitlets"):
        inspection().widget()


def test_the_joined_module_imports_nothing_and_has_unique_names() -> None:
    module = joined_module()
    assert re.findall(r"^ *import\b.*|\bimport\(.*", module, re.MULTILINE) == []
    declared = r"^(?:export )?(?:function|class|const|let) (\w+)"
    names = re.findall(declared, module, re.MULTILINE)
    assert len(names) == len(set(names)) > 20
    assert module.count("export default") == 1
