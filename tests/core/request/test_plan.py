"""A plan has lists of formulas, and another value is refused."""

from __future__ import annotations

from typing import Any

import pytest

import marith
from marith import NGram, Plan
from marith.errors import RequestError


@pytest.mark.parametrize(
    ("drafts", "problem"),
    [
        ("small", r"a list of formulas, not 'small'; .*write Plan\.drafts"),
        (NGram(order=3, online=True), r"a list of formulas, not ngram"),
        (None, "a list of formulas, not None"),
        ([5], "a draft must be a text or a formula, not 5"),
    ],
)
def test_drafts_are_a_list_of_formulas(drafts: Any, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        Plan(drafted_by=drafts)


@pytest.mark.parametrize("every", [{5: 2}, [(None, 2)]])
def test_a_term_is_a_text_or_a_formula(every: Any) -> None:
    with pytest.raises(RequestError, match="a term in 'every' must be a text or a formula"):
        Plan(every=every)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"every": [["M", "x"]]}', "the speculative factor of 'M' .*, not 'x'"),
        ('{"every": [["M", true]]}', "the speculative factor of 'M' .*, not True"),
        ('{"evry": []}', r"a plan has no 'evry'; did you mean 'every'\?"),
        ('{"x": []}', "a plan has no 'x'; it has every, drafted_by, length"),
        ("[]", "must be a JSON object, not list"),
        ('{"drafted_by": "small"}', "drafted_by must be a list of formulas, not 'small'"),
        ('{"drafted_by": ["M"], "length": 4.5}', "the length of a draft .*, not 4.5"),
        ("nope", "Expecting value.*: 'nope'"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_an_error_in_json_quotes_the_wrong_value(text: str, problem: str) -> None:
    with pytest.raises(RequestError, match=f"invalid plan: .*{problem}"):
        Plan.from_json(text)


def test_a_plan_reads_back_from_its_json() -> None:
    for plan in (Plan(), Plan.factors({marith.parse("größe"): 3}), Plan.drafts("a", "b", length=2)):
        assert Plan.from_json(plan.to_json()) == plan
    assert Plan(every={"M": 2}).to_json() == '{"every":[["M",2]],"drafted_by":[],"length":null}'
