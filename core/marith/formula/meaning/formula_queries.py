"""Answers to two questions of applications: which terms a formula has, and how it reads raw text.

Both questions are about a formula without names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from marith.errors import FormulaError, shown
from marith.formula.meaning.binding import names_in
from marith.formula.meaning.leaves import leaves
from marith.formula.tree.node import rebuilt
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, Likelihood, Prompted, Term


def terms_of(formula: Formula) -> list[Term]:
    """Return the distinct terms that a formula is computed from, in order.

    A guide comes before its classifier. Drafts, and formulas that are multiplied by zero, are left
    out. Raises FormulaError for a value that is not a Formula, and for a formula with names.
    """
    _require_formula("terms_of", formula)
    if name := next(names_in(formula), None):
        raise FormulaError(f"terms_of takes a formula without names, and this one has {name!r}")
    return leaves(formula)


def without_template(formula: Formula) -> Formula:
    """Return the formula with terms that read raw text, without a chat template.

    A term that names a template keeps it. Raises FormulaError for a value that is not a Formula.
    """
    _require_formula("without_template", formula)
    raw: Formula = _without_template(formula)
    return raw


def _require_formula(call: str, value: object) -> None:
    if not isinstance(value, Formula):
        raise FormulaError(f"{call} takes a Formula, such as parse('M'), not {shown(value)}")


def _without_template(node: Any) -> Any:
    match node:
        case Prompted(template=None):
            return replace(node, template="plain")
        case Classifier(guide=Formula() as guide):
            return replace(node, guide=_without_template(guide))
        case Likelihood(of=of):
            return replace(node, of=_without_template(of))
    return rebuilt(node, _without_template)
