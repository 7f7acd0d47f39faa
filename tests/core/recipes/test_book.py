"""Every recipe by its name: on the page, in Python, in text, and at its neutral strength."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from support.strategies import speakers

from marith import Classifier, FormulaError, described_recipes, parse
from marith.decoding.evaluate import evaluate
from marith.formula.meaning.checking import warnings_of
from marith.formula.meaning.leaves import leaves
from marith.formula.tree.nodes import Formula, Name
from marith.recipes import RECIPES
from marith.recipes.book import recipe

NAMES = [
    "preadd", "cfg", "negative_prompt", "system_strength", "cognac", "dexperts", "gedi",
    "fudge", "self_debiased", "union_detox", "reward_guided", "genarm", "contrastive", "dola",
    "context_aware", "adaptive_context_aware", "cocoa", "proxy_tuned", "nudged",
    "safe_decoded", "cp_fused", "unlearned", "ensemble", "in_context_mixture",
]  # fmt: skip
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "recipes.md"
WORD = re.compile(r"\b[A-Za-z_]+\b(?!\s*[(=])")


def meant(text: str) -> dict[str, Formula]:
    """What the names of a page's formula stand for: judges, and as many speakers as it has."""
    names = [name for name in dict.fromkeys(WORD.findall(text)) if name not in ("C", "R", "scale")]
    terms: dict[str, Formula] = dict(zip(names, speakers(len(names)), strict=True))
    return {**terms, "C": Classifier("judge"), "R": Classifier("judge", scale="logit")}


def test_the_book_has_all_recipes_and_the_page_a_row_for_each(rows: list[Any]) -> None:
    assert sorted(RECIPES) == sorted(NAMES)
    assert sorted(row.name for row in rows) == sorted(NAMES)


def test_every_recipe_is_described_by_its_docstring_and_a_call() -> None:
    described = described_recipes()
    assert [one.name for one in described] == [*RECIPES]
    for one in described:
        written = inspect.getdoc(RECIPES[one.name]) or ""
        assert one.summary
        assert f"{one.summary} {one.source}".split() == written.split()
        assert parse(one.call)


def test_the_text_of_a_call_is_the_call_in_python(row: Any) -> None:
    known: dict[str, Any] = {**RECIPES, **{name: Name(name) for name in (*meant(row.call), "M")}}
    assert eval(row.call, known) == parse(row.call)  # formula text is Python's arithmetic


def test_the_line_on_the_page_is_the_line_that_prints(row: Any) -> None:
    assert str(parse(row.call)) == row.line
    assert parse(row.line) == parse(row.call)


def test_a_recipe_is_sound_and_reads_back_with_its_terms(row: Any) -> None:
    terms = meant(row.call)
    assert len(warnings_of(parse(row.call), terms)) <= 1  # a warning, where the weights are not one
    bound = parse(row.call, terms)
    assert warnings_of(bound, {}) == warnings_of(parse(row.call), terms)
    assert parse(str(bound)) == bound


def test_at_its_neutral_strength_a_recipe_is_its_base(row: Any, paper: Any) -> None:
    if not row.neutral:
        assert row.name in ("dola", "cocoa", "cp_fused")  # these have none
        return
    text, base = row.neutral
    neutral, alone = (parse(one, meant(text)) for one in (text, base))
    for seed in (1, 2, 3):
        world = paper.world(seed)
        paper.agrees(neutral, world, evaluate(alone, world.spoken).double().exp().numpy())
    assert leaves(neutral) == leaves(alone) or row.name == "ensemble"  # what has no say


def test_a_prompt_that_is_no_formula_has_no_place_in_a_recipe(row: Any) -> None:
    text = re.sub(r"\(\w+", "('You are rude.'", row.call, count=1)
    with pytest.raises(FormulaError, match=f"of {row.name} is a formula.*, not 'You are rude.'"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dexperts(M, a)", "dexperts(model, expert, anti_expert, strength=2.0, top_p=0.9): "),
        ("dexperts(M, a, b, strength=c)", "strength of dexperts is a number or a function of the "
         "context, not c"),
        ("unlearned(M, a, 1, 'x')", "alpha of unlearned is a number or None, not 'x'"),
        ("genarm(M, a, strengths=2)", "strengths of genarm is a list of numbers or None, not 2"),
        ("dola(M, 'x')", "early of dola is a formula or a whole number, not 'x'"),
        ("ensemble(M, a, weights=[0, 0])", "weights of a mixture must add up to more than zero"),
        ("union_detox(M, a, strength=1)", "must add up to more than zero, not 0"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_a_sentence_and_a_caret(text: str, said: str) -> None:
    with pytest.raises(FormulaError) as caught:
        warnings_of(parse(text), meant("M a b c"))
    assert said in str(caught.value)
    assert "^" in str(caught.value)


def test_a_recipe_cannot_take_a_name_that_has_a_meaning() -> None:
    def union(model: Formula) -> Formula:
        return model

    with pytest.raises(ValueError, match="'union' already means something"):
        recipe(union)
    assert "union" not in RECIPES


def test_other_formulas_of_the_page_are_valid() -> None:
    told = PAGE.read_text(encoding="utf-8").partition("| method | line |")[2].split("\n\n")[0]
    lines = re.findall(r"`([^`]*\(.*?)`", told)
    assert len(lines) == 11
    for line in lines:
        warnings_of(parse(line), meant(line))
