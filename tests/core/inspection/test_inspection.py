"""An inspection is plain data: JSON that its schema describes and that reads back the same."""

from __future__ import annotations

import builtins
import json
from typing import Any

import jsonschema
import pytest
from support.example_inspection import inspection

from marith import Inspection, RequestError


def test_json_reads_back_the_same_and_follows_the_schema() -> None:
    whole = inspection()
    data = json.loads(whole.to_json())
    jsonschema.validate(data, Inspection.json_schema())
    assert data == whole.as_dict()
    assert data["positions"][0]["top"][1] == {"token": 8, "text": " cruel", "logprob": None}
    assert Inspection.from_json(whole.to_json(indent=1)) == whole
    assert Inspection.from_dict(data) == whole


def test_json_that_is_no_inspection_is_refused() -> None:
    with pytest.raises(ValueError, match="positions"):
        Inspection.from_json('{"formula": "M"}')
    with pytest.raises(ValueError, match="positions"):
        Inspection.from_dict({"formula": "M"})


def test_it_says_how_far_the_formula_pushed_a_token() -> None:
    (position,) = inspection().flipped
    assert position.push == 2.5
    assert str(inspection()) == " kind"


def test_a_table_of_pandas_has_a_row_for_each_position() -> None:
    pytest.importorskip("pandas")
    table = inspection().to_pandas()
    assert list(table["text"]) == [" kind"]
    assert list(table["weight: k"]) == [2.0]
    assert list(table['exact: 2*prompted("Be kind.")']) == [1.5]
    assert list(table["push"]) == [2.5]


def test_without_pandas_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return imported(name, *rest)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(RequestError, match=r"pip install 'marith\[evals\]'"):
        inspection().to_pandas()
