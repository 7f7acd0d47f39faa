"""Replaces the names of a formula by the terms of one request."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import chain
from typing import Any, TypeAlias

from marith.errors import FormulaError, TooLarge, Untrusted, shown, suggestion
from marith.formula.text.calls import CALLS
from marith.formula.text.intent import is_meant_as_formula
from marith.formula.text.packages import check_allowed
from marith.formula.text.parsing import parse_text
from marith.formula.tree.bounds import MAX_LENGTH, letters_of
from marith.formula.tree.node import Node, descend, rebuilt
from marith.formula.tree.nodes import Formula, Name, Scaled, Sum, added
from marith.formula.tree.printing import locate
from marith.formula.tree.terms import Classifier, Prompted

BARE = "M"
BARE_MODEL = Prompted()  # the meaning of `M` unless the terms define it
_AS_PROMPT = 'a system prompt that looks like a formula is written prompted("…")'
_CALL = re.compile(r"\s*(\w+)\s*\(")

Terms: TypeAlias = "Mapping[str, str | Formula]"


def parse(
    text: str | Formula,
    terms: Terms | None = None,
    trusted: bool = True,
    allowed: Collection[str] = (),
) -> Formula:
    """The formula of a text, its names replaced by `terms` where these are given.

    Text that is not `trusted` may contain only what `marith.formula.text.trust` describes. It may
    call a function that `define` or a package named only if `allowed` lists the name.
    Raises FormulaError for what is no formula, and for an unknown name if `terms` are given.
    """
    check_allowed(allowed, trusted)
    if not trusted:
        from marith.formula.text.trust import restricted  # which imports this module

        text, bounded = restricted(text, terms, allowed)
        terms = terms and bounded
    formula = text if isinstance(text, Formula) else parse_text(text)
    return formula if terms is None else bind(formula, resolve(terms))


def resolve(terms: Terms | None, *used_by: Formula) -> dict[str, Formula]:
    """Every name with its bound formula; `M` is the bare model unless `terms` define it.

    A text with an operator or a call, or that is the name of a term, is a formula, and raises
    FormulaError if it has a fault; any other text is a system prompt. With `used_by`, only the
    names in these formulas, `M`, and the names that those refer to are resolved.
    """
    given = {BARE: BARE_MODEL, **checked_terms(terms)}
    for name in () if used_by else given:
        Name(name)  # raises for what is no plain word
    names = [BARE, *chain.from_iterable(map(names_in, used_by))] if used_by else [*given]
    bound: dict[str, Formula] = {}
    for name in names:
        if name in given and name not in bound:
            _resolve_name(name, given, bound)
    return bound


def checked_terms(terms: Any) -> Mapping[str, Any]:
    """The terms of a request, or none. Raises FormulaError for what is no mapping."""
    if terms is not None and not isinstance(terms, Mapping):
        example = {"formal": "Speak formally."}
        problem = f"terms map names to prompts or terms, such as {example}"
        raise FormulaError(f"{problem}, not {shown(terms)}")
    return terms or {}


def names_in(formula: Formula) -> Iterator[str]:
    """The names of a formula, those in a classifier's guide and in factors included."""
    nodes = descend(formula, lambda node: node.inner)
    return (node.name for node in nodes if isinstance(node, Name))


def unknown(name: str, terms: Iterable[str]) -> str:
    """The message for a name that is not among the terms."""
    if name in CALLS:
        return f"{name!r} is called, as in {name}(…), and is no term"
    known = sorted(terms)
    return f"unknown term {name!r}{suggestion(name, known, f'; known are {_listed(known)}')}"


def bind(formula: Formula, terms: Mapping[str, Formula]) -> Formula:
    """The formula with every name replaced by its term, a classifier's guide included.

    Raises FormulaError for an unknown name, and for a result that is too large.
    """
    try:
        whole: Formula = Binding(formula, terms).of(formula)
    except TooLarge as error:
        raise TooLarge(f"with its terms {error.problem}") from None
    return whole


class Binding:
    """One binding of a formula's names to terms; each node is bound once."""

    def __init__(self, formula: Formula, terms: Mapping[str, Formula]) -> None:
        self.formula = formula
        self.terms = terms
        self._bound: dict[Node, Node] = {}

    def of(self, node: Any) -> Any:
        """The bound node; a number is returned as it is."""
        if not isinstance(node, Node):
            return node
        if node not in self._bound:
            self._bound[node] = bound(node, self)
        return self._bound[node]


@singledispatch
def bound(node: Node, binding: Binding) -> Node:
    """One kind of node with its names replaced: in all its parts, unless registered."""
    return rebuilt(node, binding.of)


@bound.register
def _(name: Name, binding: Binding) -> Node:
    if name.name not in binding.terms:
        problem = unknown(name.name, binding.terms)
        raise FormulaError(problem, *locate(binding.formula, name))
    return binding.terms[name.name]


@bound.register
def _(total: Sum, binding: Binding) -> Node:
    return added(*map(binding.of, total.members))


@bound.register
def _(scaled: Scaled, binding: Binding) -> Node:
    product: Formula = binding.of(scaled.factor) * binding.of(scaled.of)
    return product


@bound.register
def _(classifier: Classifier, binding: Binding) -> Node:
    if classifier.guide is None:
        return classifier
    return replace(classifier, guide=binding.of(classifier.guide))


def meaning(
    name: str,
    value: str | Formula,
    names: Collection[str],
    allowed: Collection[str] | None = None,
) -> Formula:
    """The formula of a term, its names not yet replaced; `names` are those of all terms.

    `allowed` is as for `parse_text`.
    """
    if isinstance(value, Formula):
        return value
    if not isinstance(value, str):
        raise FormulaError(
            f"term {name!r} is a system prompt, a term or a formula, not {shown(value)}"
        )
    is_name = value.strip() in names and value.strip() != name
    call = _CALL.match(value)
    is_call = call is not None and call[1] in CALLS
    if letters_of(value) > MAX_LENGTH and not is_call:
        return Prompted(system=value)
    try:
        formula = parse_text(value, allowed)
    except FormulaError as error:
        if isinstance(error, Untrusted) or is_call or is_meant_as_formula(value, names):
            problem = f"in term {name!r}: {error.problem}; {_AS_PROMPT}"
            raise FormulaError(problem, error.text, error.start, error.start + 1) from None
        return Prompted(system=value)
    if isinstance(formula, Name) and not is_name:
        return Prompted(system=value)
    unknown_name = next((n for n in names_in(formula) if n not in names), None)
    if unknown_name is None:
        return formula
    if not is_meant_as_formula(value, names):
        return Prompted(system=value)
    problem = f"term {name!r} is written as a formula, but {unknown_name!r} is unknown"
    raise FormulaError(f"{problem}; {_AS_PROMPT}")


def _resolve_name(name: str, given: Mapping[str, str | Formula], bound: dict[str, Formula]) -> None:
    """Bind the names that a name refers to, then the name; raises FormulaError for a circle."""
    unbound = {name: meaning(name, given[name], given)}
    path = {name: names_in(unbound[name])}  # from name to name, with the rest that each refers to
    while path:
        current = next(reversed(path))
        needed = next((n for n in path[current] if n in given and n not in bound), None)
        if needed is None:
            del path[current]
            bound[current] = _bound_term(current, unbound[current], bound)
        elif needed in path:
            circle = [*path][[*path].index(needed) :]
            raise FormulaError(f"terms are defined by each other: {_arrows([*circle, needed])}")
        else:
            unbound[needed] = meaning(needed, given[needed], given)
            path[needed] = names_in(unbound[needed])


def _bound_term(name: str, formula: Formula, bound: Mapping[str, Formula]) -> Formula:
    try:
        return bind(formula, bound)
    except FormulaError as error:
        problem = f"in term {name!r}: {error.problem}"
        raise FormulaError(problem, error.text, error.start, error.start + 1) from None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _arrows(names: Sequence[str]) -> str:
    shown_names = names if len(names) <= 12 else [*names[:6], "…", *names[-5:]]
    return " → ".join(shown_names)
