"""Named terms and formulas in a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marith.errors import FormulaError
from marith.formula.binding import resolve
from marith.formula.checking import check
from marith.formula.nodes import Formula
from marith.formula.parsing import read
from marith.formula.terms import Classifier, NGram, Prompted

_KINDS = {"prompted": Prompted, "classifier": Classifier, "ngram": NGram}


@dataclass(frozen=True, slots=True)
class FormulaFile:
    """Terms and formulas by name, as a file holds them."""

    terms: Mapping[str, str | Formula]
    formulas: Mapping[str, Formula]


def load_file(path: str | Path) -> FormulaFile:
    """Read `[terms]` and `[formulas]` from a TOML file; every formula is checked.

    A term is a system prompt, formula text, or a table: `{system = …, hide = …}`,
    `{classifier = model, label = …}`, `{ngram = path, order = …}`. Raises FormulaError.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FormulaError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FormulaError(f"{str(path)!r} is not TOML: {error}") from None
    strangers = sorted(set(data) - {"terms", "formulas"})
    if strangers:
        raise FormulaError(f"{str(path)!r} has an unknown table {strangers[0]!r}")
    terms = {name: _term(name, value) for name, value in _table(path, data, "terms").items()}
    bound = resolve(terms)
    formulas: dict[str, Formula] = {}
    for name, text in _table(path, data, "formulas").items():
        formulas[name] = read(text)
        check(formulas[name], bound)
    return FormulaFile(terms, formulas)


def _table(path: str | Path, data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, Mapping):
        raise FormulaError(f"{name!r} in {str(path)!r} is a table, not {table!r}")
    return table


def _term(name: str, value: Any) -> str | Formula:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise FormulaError(f"term {name!r} is a text or a table, not {value!r}")
    given = dict(value)
    kind = next((k for k in ("classifier", "ngram") if k in given), "prompted")
    if kind != "prompted":
        field = "model" if kind == "classifier" else "path"
        if field in given:
            raise FormulaError(f"term {name!r} has both {kind!r} and {field!r}")
        given[field] = given.pop(kind)
    if isinstance(given.get("guide"), str):
        given["guide"] = read(given["guide"])
    try:
        term: Formula = _KINDS[kind](**given)
        return term
    except TypeError as error:
        raise FormulaError(f"term {name!r}: {str(error).split('() ')[-1]}") from None
    except FormulaError as error:
        raise FormulaError(f"term {name!r}: {error.problem}") from None
