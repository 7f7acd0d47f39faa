"""Names → terms: what a formula's names stand for in one request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from marith.errors import FormulaError
from marith.formula.factors import Node, rebuilt
from marith.formula.nodes import Formula, Name, Scaled, Sum, walk
from marith.formula.parsing import CALLS, MAX_LENGTH, is_expression, read
from marith.formula.printing import locate
from marith.formula.terms import Classifier, Prompted

BARE = "M"
MAX_NODES = 5_000
_CALL = re.compile(r"\s*(\w+)\s*\(")

Terms: TypeAlias = "Mapping[str, str | Formula]"


def parse(text: str | Formula, terms: Terms | None = None) -> Formula:
    """The formula that a text writes, its names replaced by `terms` where these are given.

    Raises FormulaError for what is no formula, and for an unknown name if `terms` are given.
    """
    formula = text if isinstance(text, Formula) else read(text)
    return formula if terms is None else bind(formula, resolve(terms))


def resolve(terms: Terms | None) -> dict[str, Formula]:
    """Every name with the bound formula it stands for; `M` is the bare model unless it is given.

    A text written as a formula (an operator, a call, or a known name alone) is one; any other
    text is a system prompt.
    """
    if terms is not None and not isinstance(terms, Mapping):
        raise FormulaError(f"terms map names to prompts or terms, not {terms!r}")
    given = dict(terms or {})
    for name in given:
        Name(name)  # refuses what is no plain word
    known = {BARE, *given}
    plain = {name: _meaning(name, value, known) for name, value in given.items()}
    plain.setdefault(BARE, Prompted())
    bound: dict[str, Formula] = {}
    for name in plain:
        _resolve_one(name, plain, bound, ())
    return bound


def bind(formula: Formula, terms: Mapping[str, Formula]) -> Formula:
    """The formula with every name replaced by its term, a classifier's guide included.

    Raises FormulaError for an unknown name, or for more than `MAX_NODES` nodes.
    """
    sizes = {name: sum(1 for _ in walk(term)) for name, term in terms.items()}
    size = sum(sizes.get(n.name, 1) if isinstance(n, Name) else 1 for n in walk(formula))
    if size > MAX_NODES:
        raise FormulaError(f"with its terms the formula has {size} parts; {MAX_NODES} are allowed")

    def formed(node: Node) -> Node:
        return bound(node) if isinstance(node, Formula) else rebuilt(node, formed)

    def bound(node: Formula) -> Formula:
        match node:
            case Name(name):
                if name not in terms:
                    known = ", ".join(sorted(terms))
                    problem = f"unknown term {name!r}; known are {known}"
                    raise FormulaError(problem, *locate(formula, node))
                return terms[name]
            case Sum(members):
                first, *rest = (bound(member) for member in members)
                for member in rest:
                    first = first + member
                return first
            case Scaled(factor, of):
                return (formed(factor) if isinstance(factor, Node) else factor) * bound(of)
            case Classifier(guide=Formula() as guide):
                return replace(node, guide=bind(guide, terms))
        return rebuilt(node, formed)

    return bound(formula)


def _meaning(name: str, value: str | Formula, known: set[str]) -> Formula:
    if isinstance(value, Formula):
        return value
    if not isinstance(value, str):
        raise FormulaError(f"term {name!r} is a system prompt, a term or a formula, not {value!r}")
    alone = value.strip() in known and value.strip() != name
    called = _CALL.match(value)
    if not (called and called[1] in CALLS) and (
        len(value) > MAX_LENGTH or not (alone or is_expression(value))
    ):
        return Prompted(system=value)
    try:
        formula = read(value)
    except FormulaError as error:
        problem = f"in term {name!r}: {error.problem}"
        raise FormulaError(problem, error.text, error.start, error.start + 1) from None
    stranger = next((n for n in _names(formula) if n not in known), None)
    if stranger is not None:
        raise FormulaError(
            f"term {name!r} is written as a formula, but {stranger!r} is unknown; "
            f"a system prompt that looks like a formula is written prompted({value!r})"
        )
    return formula


def _resolve_one(
    name: str, plain: Mapping[str, Formula], bound: dict[str, Formula], above: tuple[str, ...]
) -> None:
    """Bind one name after those it refers to; a circle is an error."""
    if name in bound:
        return
    if name in above:
        circle = " → ".join((*above[above.index(name) :], name))
        raise FormulaError(f"terms are defined by each other: {circle}")
    for needed in _names(plain[name]):
        if needed in plain:
            _resolve_one(needed, plain, bound, (*above, name))
    try:
        bound[name] = bind(plain[name], bound)
    except FormulaError as error:
        problem = f"in term {name!r}: {error.problem}"
        raise FormulaError(problem, error.text, error.start, error.start + 1) from None


def _names(formula: Formula) -> list[str]:
    names: list[str] = []
    for node in walk(formula):  # those that factors look at too
        if isinstance(node, Name):
            names.append(node.name)
        if isinstance(node, Classifier) and node.guide is not None:
            names += _names(node.guide)
    return names
