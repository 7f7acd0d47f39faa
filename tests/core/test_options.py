"""Options: a plan is plain data, however it is given, and one that does not fit is refused."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from marith import Options, Plan

PLAN = Plan((("formal", 4),), ("ngram(order=4, online=True)",), 6)
TWO = {"formula": "M + formal", "terms": {"formal": "Write formally."}}


def test_a_plan_may_be_given_as_its_json_or_as_a_mapping() -> None:
    whole = Options(**TWO, speculation=PLAN)
    plain = json.loads(PLAN.to_json())
    for given in (PLAN.to_json(), plain, whole.chosen()["speculation"]):
        assert Options(**TWO, speculation=given) == whole
    assert whole.request("hi").speculation == PLAN


def test_options_with_a_plan_are_a_plain_value() -> None:
    whole = Options(**TWO, speculation=PLAN)
    assert Options.model_validate_json(whole.model_dump_json()) == whole
    assert Options(**json.loads(json.dumps(whole.chosen()))) == whole
    assert pickle.loads(pickle.dumps(whole)) == whole.over({}) == whole
    assert whole.over({"speculation": None}).speculation is None
    assert {Options(**TWO, speculation=one).speculation for one in ("auto", None)} == {"auto", None}


@pytest.mark.parametrize(
    ("speculation", "problem"),
    [
        ("car", "'auto'"),
        (4, "'auto'"),
        ("{", "this is no plan"),
        ('{"every": 3}', "this is no plan: every"),
        ({"evry": []}, "evry"),
        ({"every": [["formal", 99]]}, "from 1 to 16, not 99"),
        (Plan.factors({"nobody": 3}), "unknown term 'nobody'"),
        (Plan.factors({"M": 3, "formal": 3}), "no term speaks at every token"),
    ],
)
def test_what_is_no_plan_of_this_formula_is_refused(speculation: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Options(**TWO, model="/nowhere", speculation=speculation)
