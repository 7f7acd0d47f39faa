"""Convert formulas and terms to plain data, and plain data to formulas and terms.

A term as data is a prompt, a formula or a table.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeAlias

from marith.errors import FormulaError, Untrusted, shown, suggestion
from marith.formula.text.calls import BARE, misfit
from marith.formula.text.parsing import parse_text
from marith.formula.tree.nodes import Formula, Name, names_of
from marith.formula.tree.terms import SPELLED, Classifier, NGram, Prompted

_log = logging.getLogger(__name__)
_KEYS = {"classifier": "model", "ngram": "path", "prompted": "system"}
_KINDS = {"prompted": Prompted, "classifier": Classifier, "ngram": NGram}
_TABLE = (
    "a table is {formula = …}, {prompted = …}, {adapter = …}, {vectors = …}, {classifier = …} or "
    "{ngram = …}"
)
# The models in the package, which are in a room that this one does not import.
_POCKET = re.compile("pocket(-[a-z]+)?")
_READ_AS_PROMPT = (
    "term %s is used as a system prompt, but its text reads like a formula; if you meant a "
    'formula, write {"formula": "…"}, marith.parse("…") in Python, or --define in a shell'
)
_READ_AS_PATH = (
    "term %s is a system prompt, and its text is also a path or the name of a model: an adapter is "
    'written Prompted(adapter="…") in Python, {"adapter": "…"} as data, and --define '
    "'NAME=prompted(adapter=\"…\")' in a shell, and a model, a classifier or vectors likewise"
)
# A path has no blank. An absolute path counts as a path only if it has a second slash, because
# `/no_think` of Qwen3 is a prompt.
_PATH = re.compile(r"(~|\.{1,2})/\S+|/\S+/\S*|[A-Za-z]:\\\S+|\S+\.(gguf|safetensors)")
# The number of texts whose formulas are cached. Many requests share their texts.
_READ = 1_024

Terms: TypeAlias = "Mapping[str, str | Formula | Mapping[str, Any]]"
# A term as data is a system prompt, or {"formula": "…"}.
TermData: TypeAlias = str | dict[str, str]


def read_formula(formula: str | Formula) -> Formula:
    """Return a formula. A text is parsed, equal texts only once. Raises FormulaError."""
    if isinstance(formula, Formula):
        return formula
    # `parse_text` raises the error for a value that is not a text.
    return _parsed(formula) if isinstance(formula, str) else parse_text(formula)


def read_terms(terms: Terms | None) -> dict[str, Formula]:
    """Return the terms of a request by name, see `read_term`. Raises FormulaError.

    Logs a warning for a system prompt that could be read as a path, or as a formula over the names
    of the terms.
    """
    checked = checked_terms(terms)
    keys = tuple(
        (name, _Table(tuple(t.items())) if isinstance(t, Mapping) else t)
        for name, t in checked.items()
    )
    try:
        return dict(_read(keys))
    except TypeError:
        # A table that contains a list is not hashable, and cannot be a key of the cache.
        return _read.__wrapped__(keys)


def checked_terms(terms: Any) -> Mapping[str, Any]:
    """Return the terms of a request, or an empty mapping. Raises FormulaError for other values."""
    if terms is not None and not isinstance(terms, Mapping):
        example = {"formal": "Speak formally."}
        problem = f"terms map names to prompts or terms, such as {example}"
        raise FormulaError(f"{problem}, not {shown(terms)}")
    return terms or {}


def read_term(name: str, term: Any, allowed: Collection[str] | None = None) -> Formula:
    """Return a term as a formula: a text is a system prompt, and `{"formula": text}` a formula.

    Other tables are those of a persona file. `allowed` is as for `parse_text`. Raises FormulaError
    for any other value, and for a table that does not describe a term.
    """
    if isinstance(term, Formula):
        return term
    if isinstance(term, str):
        return Prompted(system=term)
    if not isinstance(term, Mapping):
        kinds = 'a system prompt, a Formula or {"formula": "…"}'
        raise FormulaError(f"term {name!r} is {kinds}, not {shown(term)}")
    if "formula" not in term:
        return _of_table(name, dict(term))
    if other := next((key for key in term if key != "formula"), None):
        raise FormulaError(
            f"term {name!r} has 'formula' and {other!r}; 'formula' must be the only key"
        )
    try:
        text = term["formula"]
        return read_formula(text) if allowed is None else parse_text(text, allowed)
    except FormulaError as error:
        problem = f"in term {name!r}: {error.problem}"
        raise FormulaError(problem, error.text, error.start, error.end) from None


def _of_table(name: str, table: dict[str, Any]) -> Formula:
    kind = next((k for k in _KEYS if k in table), "prompted")
    if kind in table:
        if _KEYS[kind] in table:
            raise FormulaError(f"term {name!r} has both {kind!r} and {_KEYS[kind]!r}")
        table[_KEYS[kind]] = table.pop(kind)
    if isinstance(table.get("guide"), str):
        table["guide"] = parse_text(table["guide"])
    known = [field.name for field in fields(_KINDS[kind]) if field.init]
    if unknown := next((key for key in table if key not in known), None):
        if unknown in _KEYS:
            raise FormulaError(f"term {name!r} has both {kind!r} and {unknown!r}")
        hint = suggestion(unknown, ["formula", *_KEYS, *known])
        if kind == "prompted" and unknown in SPELLED:
            hint = f'; write {{"{SPELLED[unknown]}": …}}'
        raise FormulaError(f"term {name!r} has an unknown key {unknown!r}{hint}; {_TABLE}")
    try:
        term: Formula = _KINDS[kind](**table)
        return term
    except TypeError as error:
        problem = misfit(kind, _KINDS[kind], (), table, error).problem
        raise FormulaError(f"term {name!r}: {problem}") from None
    except FormulaError as error:
        raise FormulaError(f"term {name!r}: {error.problem}") from None


def terms_as_data(terms: Mapping[str, Any]) -> dict[str, TermData]:
    """Return terms of any kind as data. Data is returned unchanged and is not checked.

    Raises FormulaError as `read_term` and `as_text` do.
    """
    return {
        name: term if is_data(term) else as_data(read_term(name, term))
        for name, term in terms.items()
    }


def as_data(term: Formula) -> TermData:
    """Return a term as data: the text of a system prompt, or `{"formula": text}`."""
    if isinstance(term, Prompted) and term.system and term == Prompted(system=term.system):
        return term.system
    return {"formula": as_text(term)}


def is_data(term: object) -> bool:
    """Return whether a term is data: a text, or `{"formula": text}`."""
    if isinstance(term, Mapping):
        return [*term] == ["formula"] and isinstance(term["formula"], str)
    return isinstance(term, str)


def as_text(value: str | Formula) -> str:
    """Return a formula as text that parses back to it. Raises FormulaError if no text does."""
    if isinstance(value, str):
        return value
    text = str(read_formula(value))
    if read_formula(text) != value:
        raise FormulaError(f"this formula cannot be written as text: {text[:80]!r}")
    return text


@dataclass(frozen=True, slots=True)
class _Table:
    """A hashable table, for the key of a cache."""

    items: tuple[tuple[str, Any], ...]


# Many requests share their terms.
@lru_cache(maxsize=64)
def _read(terms: tuple[tuple[str, Any], ...]) -> dict[str, Formula]:
    for name, _ in terms:
        # This raises FormulaError unless the name is a plain word.
        Name(name)
    by_name = {name: dict(t.items) if isinstance(t, _Table) else t for name, t in terms}
    for name, term in by_name.items():
        if isinstance(term, str) and (_PATH.fullmatch(term) or _POCKET.fullmatch(term)):
            _log.warning(_READ_AS_PATH, shown(name))
        elif isinstance(term, str) and _spells_formula(term, {BARE, *by_name} - {name}):
            _log.warning(_READ_AS_PROMPT, shown(name))
    return {name: read_term(name, term) for name, term in by_name.items()}


@lru_cache(maxsize=_READ)
def _parsed(text: str) -> Formula:
    return parse_text(text)


def _spells_formula(text: str, known: Collection[str]) -> bool:
    """Return whether a text is a formula over known names."""
    try:
        # With `allowed=()`, the text may call only marith's functions, so no package is imported.
        formula = parse_text(text, allowed=())
    except Untrusted:
        # The text calls a term that opens a file: `prompted(vectors={"happy.gguf": 1})`.
        return True
    except FormulaError:
        return False
    return {node.name for node in names_of(formula)} <= set(known)
