"""Bind the names of a formula to the terms of one request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import singledispatch
from itertools import chain
from typing import Any

from marith.errors import FormulaError, TooLarge, suggestion
from marith.formula.text.calls import BARE as BARE
from marith.formula.text.calls import CALLS
from marith.formula.text.term_data import Terms as Terms
from marith.formula.text.term_data import read_terms
from marith.formula.tree.node import Node, rebuilt
from marith.formula.tree.nodes import Formula, Name, Scaled, Sum, added, names_of
from marith.formula.tree.printing import locate
from marith.formula.tree.terms import Classifier, Prompted

# `M` means this term unless the terms of a request define `M`.
BARE_MODEL = Prompted()


def resolve(terms: Terms | None, *used_by: Formula) -> dict[str, Formula]:
    """Return the formula of each name, with all names in the formula replaced by their terms.

    `M` is the bare model unless `terms` define it. If there are formulas in `used_by`, the result
    has only `M` and the names that these formulas use, directly or through other terms. Raises
    FormulaError for a name that `terms` do not define, and for a circular definition.
    """
    formulas = {BARE: BARE_MODEL, **read_terms(terms)}
    for formula in used_by:
        require_known(formula, formulas)
    names = [BARE, *chain.from_iterable(map(names_in, used_by))] if used_by else [*formulas]
    bound: dict[str, Formula] = {}
    for name in names:
        if name not in bound:
            _resolve_name(name, formulas, bound)
    return bound


def require_known(formula: Formula, names: Collection[str]) -> None:
    """Raise FormulaError for a name in a formula that is not among `names`."""
    for node in names_of(formula):
        if node.name not in names:
            raise FormulaError(unknown(node.name, names), *locate(formula, node))


def names_in(formula: Formula) -> Iterator[str]:
    """Return an iterator over the names in a formula as texts; see `names_of`."""
    return (node.name for node in names_of(formula))


def unknown(name: str, terms: Iterable[str]) -> str:
    """Return the message for a name that is not among the terms."""
    if name in CALLS:
        return f"{name!r} is a function, called as {name}(…), and not a term"
    known = sorted(terms)
    define = f"; known are {_listed(known)}; define it: terms={{{name!r}: …}}"
    return f"unknown term {name!r}{suggestion(name, known, define)}"


def bind(formula: Formula, terms: Mapping[str, Formula]) -> Formula:
    """Return the formula with every name replaced by its term, in guides of classifiers too.

    Raises FormulaError for an unknown name, and for a result that is too large.
    """
    try:
        whole: Formula = Binding(formula, terms).of(formula)
    except TooLarge as error:
        raise TooLarge(f"with its terms {error.problem}") from None
    return whole


class Binding:
    """The nodes of one formula, with their names bound to terms. Each node is bound once."""

    def __init__(self, formula: Formula, terms: Mapping[str, Formula]) -> None:
        self.formula = formula
        self.terms = terms
        self._bound: dict[Node, Node] = {}

    def of(self, node: Any) -> Any:
        """Return the bound node. A number is returned unchanged."""
        if not isinstance(node, Node):
            return node
        if node not in self._bound:
            self._bound[node] = bound(node, self)
        return self._bound[node]


@singledispatch
def bound(node: Node, binding: Binding) -> Node:
    """Return a node with its names replaced by terms, by default the names in all its parts."""
    return rebuilt(node, binding.of)


@bound.register
def _bind_name(name: Name, binding: Binding) -> Node:
    if name.name not in binding.terms:
        problem = unknown(name.name, binding.terms)
        raise FormulaError(problem, *locate(binding.formula, name))
    return binding.terms[name.name]


@bound.register
def _bind_sum(total: Sum, binding: Binding) -> Node:
    return added(*map(binding.of, total.members))


@bound.register
def _bind_scaled(scaled: Scaled, binding: Binding) -> Node:
    product: Formula = binding.of(scaled.factor) * binding.of(scaled.of)
    return product


@bound.register
def _bind_classifier(classifier: Classifier, binding: Binding) -> Node:
    if classifier.guide is None:
        return classifier
    return replace(classifier, guide=binding.of(classifier.guide))


def _resolve_name(name: str, formulas: Mapping[str, Formula], bound: dict[str, Formula]) -> None:
    """Bind the names that a name refers to, then the name. Raises FormulaError for a circle."""
    # The path leads from `name` to the name that is bound next. Each name on the path has an
    # iterator over the names in its term.
    path = {name: _needed_by(name, formulas)}
    while path:
        current = next(reversed(path))
        needed = next((n for n in path[current] if n not in bound), None)
        if needed is None:
            del path[current]
            with _within(current):
                bound[current] = bind(formulas[current], bound)
        elif needed in path:
            circle = [*path][[*path].index(needed) :]
            raise FormulaError(f"terms have a circular definition: {_arrows([*circle, needed])}")
        else:
            path[needed] = _needed_by(needed, formulas)


def _needed_by(name: str, formulas: Mapping[str, Formula]) -> Iterator[str]:
    """Return an iterator over the names in a term. Raises FormulaError for an undefined name."""
    with _within(name):
        require_known(formulas[name], formulas)
    return names_in(formulas[name])


@contextmanager
def _within(name: str) -> Iterator[None]:
    """Add the name of a term to the message of a FormulaError about the term."""
    try:
        yield
    except FormulaError as error:
        problem = f"in term {name!r}: {error.problem}"
        raise FormulaError(problem, error.text, error.start, error.start + 1) from None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _arrows(names: Sequence[str]) -> str:
    shown_names = names if len(names) <= 12 else [*names[:6], "…", *names[-5:]]
    return " → ".join(shown_names)
