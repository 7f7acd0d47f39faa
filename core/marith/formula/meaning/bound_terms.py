"""What applications ask of a formula without names: its terms, and the formula for raw text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from marith.formula.meaning.analysis import leaves
from marith.formula.tree.node import rebuilt
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, Likelihood, Prompted, Term


def terms_of(formula: Formula) -> list[Term]:
    """Return the distinct terms that a formula is computed from, in order.

    The formula has no names left, see `parse`. A guide of a classifier comes before the classifier.
    What is multiplied by zero is left out, and so is a draft.
    """
    return leaves(formula)


def without_template(formula: Formula) -> Formula:
    """Return the formula for raw text: no chat template, unless a term asks for one."""
    raw: Formula = _without_template(formula)
    return raw


def _without_template(node: Any) -> Any:
    match node:
        case Prompted(template=None):
            return replace(node, template="plain")
        case Classifier(guide=Formula() as guide):
            return replace(node, guide=_without_template(guide))
        case Likelihood(of=of):
            return replace(node, of=_without_template(of))
    return rebuilt(node, _without_template)
