"""Terms as callers and data give them: prompts, formulas and tables; and formulas as data."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from marith.errors import FormulaError, Untrusted, shown
from marith.formula.text.calls import BARE, misfit
from marith.formula.text.parsing import parse_text
from marith.formula.tree.nodes import Formula, Name, names_of
from marith.formula.tree.terms import Classifier, NGram, Prompted

_log = logging.getLogger(__name__)
_KEYS = {"classifier": "model", "ngram": "path", "prompted": "system"}
_KINDS = {"prompted": Prompted, "classifier": Classifier, "ngram": NGram}
_READ = 1_024  # texts whose meaning is kept, since many requests have the same

Terms: TypeAlias = "Mapping[str, str | Formula | Mapping[str, Any]]"
TermData: TypeAlias = str | dict[str, str]  # a system prompt, or {"formula": …}


def read_formula(formula: str | Formula) -> Formula:
    """Return a formula, which may be text; equal texts are parsed once. Raises FormulaError."""
    if isinstance(formula, Formula):
        return formula
    return _parsed(formula) if isinstance(formula, str) else parse_text(formula)


def read_terms(terms: Terms | None) -> dict[str, Formula]:
    """Return the terms of a request by name, see `read_term`. Raises FormulaError.

    Logs once that a system prompt is the text of a formula over names that are known.
    """
    given = tuple(checked_terms(terms).items())
    try:
        return dict(_read(given))
    except TypeError:  # a table is no key of a cache
        return _read.__wrapped__(given)


def checked_terms(terms: Any) -> Mapping[str, Any]:
    """Return the terms of a request, or none. Raises FormulaError unless they are a mapping."""
    if terms is not None and not isinstance(terms, Mapping):
        example = {"formal": "Speak formally."}
        problem = f"terms map names to prompts or terms, such as {example}"
        raise FormulaError(f"{problem}, not {shown(terms)}")
    return terms or {}


def read_term(name: str, term: Any, allowed: Collection[str] | None = None) -> Formula:
    """Return a term as a formula: a text is a system prompt, `{"formula": text}` a formula.

    Other tables are as in a file. `allowed` is as for `parse_text`. Raises FormulaError for
    anything else, and for a table that describes no term.
    """
    if isinstance(term, Formula):
        return term
    if isinstance(term, str):
        return _prompt(term)
    if not isinstance(term, Mapping):
        kinds = 'a system prompt, a Formula or {"formula": "…"}'
        raise FormulaError(f"term {name!r} is {kinds}, not {shown(term)}")
    if "formula" not in term:
        return _of_table(name, dict(term))
    if other := next((key for key in term if key != "formula"), None):
        raise FormulaError(f"term {name!r} has 'formula', and beside it {other!r}")
    try:
        text = term["formula"]
        return read_formula(text) if allowed is None else parse_text(text, allowed)
    except FormulaError as error:
        problem = f"in term {name!r}: {error.problem}"
        raise FormulaError(problem, error.text, error.start, error.start + 1) from None


def _of_table(name: str, table: dict[str, Any]) -> Formula:
    kind = next((k for k in _KEYS if k in table), "prompted")
    if kind in table:
        if _KEYS[kind] in table:
            raise FormulaError(f"term {name!r} has both {kind!r} and {_KEYS[kind]!r}")
        table[_KEYS[kind]] = table.pop(kind)
    if isinstance(table.get("guide"), str):
        table["guide"] = parse_text(table["guide"])
    try:
        term: Formula = _KINDS[kind](**table)
        return term
    except TypeError as error:
        problem = misfit(kind, _KINDS[kind], (), table, error).problem
        raise FormulaError(f"term {name!r}: {problem}") from None
    except FormulaError as error:
        raise FormulaError(f"term {name!r}: {error.problem}") from None


def terms_as_data(terms: Mapping[str, Any]) -> dict[str, TermData]:
    """Return terms of any kind as data; what is data stays as it is, and may have a fault.

    Raises FormulaError as `read_term` and `as_text` do.
    """
    return {
        name: term if _is_data(term) else as_data(read_term(name, term))
        for name, term in terms.items()
    }


def as_data(term: Formula) -> TermData:
    """Return a term as data: the text of a system prompt, or `{"formula": text}`."""
    if isinstance(term, Prompted) and term.system and term == Prompted(system=term.system):
        return term.system
    return {"formula": as_text(term)}


def _is_data(term: object) -> bool:
    if isinstance(term, dict):
        return [*term] == ["formula"] and isinstance(term["formula"], str)
    return isinstance(term, str)


def as_text(value: str | Formula) -> str:
    """Return a formula as text that parses back to it. Raises FormulaError where none does."""
    if not isinstance(value, Formula):
        return value
    text = str(value)
    if parse_text(text) != value:
        raise FormulaError(f"this formula cannot be written as text: {text[:80]!r}")
    return text


def warn_of_formulas(terms: Mapping[str, Any]) -> None:
    """Log once for each name whose system prompt is the text of a formula over known names."""
    for name, term in terms.items():
        used = _names_of(term) if isinstance(term, str) else None
        if used is not None and used <= {BARE, *terms} - {name}:
            _say_once(name, term)


@lru_cache(maxsize=64)  # many requests have the same terms
def _read(terms: tuple[tuple[str, Any], ...]) -> dict[str, Formula]:
    for name, _ in terms:
        Name(name)  # raises for what is no plain word
    warn_of_formulas(dict(terms))
    return {name: read_term(name, term) for name, term in terms}


@lru_cache(maxsize=_READ)
def _parsed(text: str) -> Formula:
    return parse_text(text)


@lru_cache(maxsize=_READ)
def _prompt(text: str) -> Prompted:
    return Prompted(system=text)


@lru_cache(maxsize=_READ)
def _names_of(text: str) -> frozenset[str] | None:
    """Return the names in the text of a formula, and None for any other text."""
    try:
        formula = parse_text(text, allowed=())  # so that no package is imported
    except Untrusted:
        return frozenset()
    except FormulaError:
        return None
    return frozenset(node.name for node in names_of(formula))


@lru_cache(maxsize=1_000)
def _say_once(name: str, _text: str) -> None:
    """Log a warning, which does not have the text of the prompt, and no equal one again."""
    _log.warning(
        "term %s is a text, and so a system prompt; to mean the formula that it spells, write "
        'marith.parse("…") in Python, {"formula": "…"} in data, --define in a shell',
        shown(name),
    )
