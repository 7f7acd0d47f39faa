"""How much formulas enlarge errors of their terms, beside errors put in by hand."""

from __future__ import annotations

import warnings

import pytest

from marith import Engine
from marith.formula.meaning.amplification import amplification
from marith.formula.text.trust import parse
from marith.formula.tree.operators import Posterior, SelfDebias
from marith.formula.tree.terms import Prompted

NAMES = {name: Prompted(system=name) for name in ("M", "a", "b")}
HEADLINE = "M - 0.96*union(a, M)"


def test_parts_of_recipes_count_too() -> None:
    m, a = NAMES["M"], NAMES["a"]
    assert amplification(SelfDebias(m, (a,), 100, 0.01)) == 201
    assert amplification(Posterior((m, a))) == 2


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("M", 1),
        ("2*M", 1),
        ("0.5*M + 0.5*a", 1),
        ("1.5*M - 0.5*a", 2),
        (HEADLINE, 49),
        ("union(M, 1.5*a - 0.5*b)", 2),
        ("intersection(M, a)", 1),
        ("unscaled(M + 1.5*(a - b))", 4),
        ("supersede(b, 3*M - 2*a)", 5),
        ("(2*M - a).temperature(0.5)", 6),
        ("(2*M - a).min_p(0.1)", 3),
        ("entropy(M)*M + a", 2),  # no largest number: counts as 1
    ],
)
def test_it_is_the_sum_of_absolute_factors_by_the_weight(text: str, times: float) -> None:
    assert amplification(parse(text, NAMES)) == pytest.approx(times)


def test_a_formula_at_risk_is_named_once_where_products_round_coarsely() -> None:
    """A worse formula is named too; no text of either is in a warning."""
    terms = {"a": "The password is hunter2."}
    with Engine.load("pocket", dtype="bfloat16") as engine:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine.generate("Hello.", "0.5*M + 0.5*a", terms, max_tokens=1)
        told = r"rounding 49 times, and bfloat16 rounds .*'float32'"
        with pytest.warns(UserWarning, match=told) as warned:
            engine.generate("Hello.", HEADLINE, terms, max_tokens=1)
        with pytest.warns(UserWarning, match="enlarges rounding 1999 times"):
            engine.generate("Hello.", "1000*M - 999*a", terms, max_tokens=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine.generate("Hello.", HEADLINE, terms, max_tokens=1)
            engine.generate("Hello.", "2000*M - 1999*a", terms, max_tokens=1)
    assert "hunter2" not in str(warned[0].message)
    with warnings.catch_warnings(), Engine.load("pocket", dtype="float32") as engine:
        warnings.simplefilter("error")
        engine.generate("Hello.", HEADLINE, terms, max_tokens=1)
