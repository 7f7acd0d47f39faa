"""The persona file: terms and formulas by name, and the options to generate with them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, field_serializer, field_validator

from marith.errors import FormulaError, shown, suggestion
from marith.formula.meaning.binding import resolve
from marith.formula.meaning.checking import check
from marith.formula.text.calls import BARE, check_allowed
from marith.formula.text.parsing import parse_text
from marith.formula.text.term_data import TermData, as_text, read_formula, read_terms, terms_as_data
from marith.formula.text.trust import restricted
from marith.formula.tree.node import Node, rebuilt
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, NGram, Prompted
from marith.options.option_checks import AT_CREATION, METADATA
from marith.options.untrusted import LOWERED, OF_A_CALL

_TABLES = ("model", "terms", "formulas")
# All options: those with a check, and those that `METADATA` does not have.
_OPTIONS = frozenset(
    (*METADATA, "model", "formula", "terms", "speculation", "revision", "faithful_to", *AT_CREATION)
)
_BACKSLASHES = "; write a path with backslashes in single quotes: 'C:\\models\\tiny.gguf'"
# TOML reads the escapes \b, \t, \n, \f and \r in a path as these characters.
_ESCAPED = frozenset("\b\t\n\f\r")


@dataclass(frozen=True, slots=True)
class PersonaFile:
    """The content of a persona file: terms and formulas by name, and their options.

    `options` apply to every formula, and `own_options` to one formula each. `Options.from_file`
    checks both. `descriptions` are for people; the description of a formula may be "".
    `Options` sets `formula_name`: the name of the formula that the options use, "" if that formula
    is not in the file, or None before options are made. `checked` is True once `Options` have
    checked the file.
    """

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)

    path: str
    terms: Mapping[str, Formula]
    formulas: Mapping[str, Formula]
    options: Mapping[str, Any] = field(default_factory=dict)
    own_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    formula_name: str | None = None
    checked: bool = False

    @field_validator("terms", mode="before")
    @classmethod
    def _terms_of_data(cls, terms: Any) -> Any:
        return read_terms(terms)

    @field_serializer("terms")
    def _terms_as_data(self, terms: Mapping[str, Formula]) -> dict[str, TermData]:
        return terms_as_data(terms)

    @field_validator("formulas", mode="before")
    @classmethod
    def _formulas_of_data(cls, formulas: Any) -> Any:
        is_mapping = isinstance(formulas, Mapping)
        return {n: read_formula(text) for n, text in formulas.items()} if is_mapping else formulas

    @field_serializer("formulas")
    def _formulas_as_data(self, formulas: Mapping[str, Formula]) -> dict[str, str]:
        return {name: as_text(formula) for name, formula in formulas.items()}


def load_file(path: str | Path, trusted: bool = True, allowed: Collection[str] = ()) -> PersonaFile:
    """Read `[terms]`, `[formulas]` and `[model]` from a TOML file, and check every formula.

    A term is a system prompt or a table: `{formula = …}`, `{prompted = …, hide = …}`, `{adapter =
    path}`, `{vectors = {path = strength}}`, `{classifier = model, label = …}`, `{ngram = path,
    order = …}`. A formula is its text, or a table: `{formula = …, description = …}` and options.
    Paths are relative to the file's folder. Raises FormulaError with the place of the fault.

    A file that is not `trusted` may contain only texts that `parse` accepts with `allowed`, and
    only options that control how an answer is sampled. In the result, the option `trusted` is
    False.
    """
    check_allowed(allowed, trusted)
    data, folder = _toml(path), Path(path).parent
    unknown_tables = sorted(set(data) - set(_TABLES))
    if unknown_tables:
        raise FormulaError(f"{str(path)!r} {_unknown(unknown_tables[0], data)}")
    options, terms, formulas = (_table(path, data, name) for name in _TABLES)
    if not trusted:
        _check_trust(path, terms, formulas, options, allowed)
        options = {**options, "trusted": False}
    with _located(f"{str(path)!r}"):
        written = read_terms(terms)
        # Names are resolved twice: before the paths change, so that errors show the terms as
        # written, and afterwards, for the formulas below.
        resolve(written)
        placed = {name: _with_paths_in(folder, term) for name, term in written.items()}
        bound = resolve(placed)
        tables = {name: _formula_table(name, value) for name, value in formulas.items()}
    parsed: dict[str, Formula] = {}
    for name, table in tables.items():
        with _located(f"{str(path)!r}, formula {name!r}"):
            parsed[name] = _with_paths_in(folder, parse_text(table.pop("formula")))
            check(parsed[name], bound)
    for table in (options := dict(options), *tables.values()):
        if "model" in table:
            with _located(f"{str(path)!r}"):
                table["model"] = _path_in(folder, table["model"])
    descriptions = {name: table.pop("description", "") for name, table in tables.items()}
    return PersonaFile(str(path), placed, parsed, options, tables, descriptions)


def _check_trust(
    path: str | Path,
    terms: Mapping[str, Any],
    formulas: Mapping[str, Any],
    options: Mapping[str, Any],
    allowed: Collection[str],
) -> None:
    """Raise FormulaError for content that an untrusted file must not have."""
    with _located(f"{str(path)!r}"):
        restricted(BARE, terms, allowed)
        for option in sorted(options.keys() - OF_A_CALL - LOWERED.keys()):
            raise _of_the_application(option)
        for option, low in LOWERED.items():
            if options.get(option, low) is not low:
                raise FormulaError(f"an untrusted file may only say {option} = {str(low).lower()}")
    for name, value in formulas.items():
        with _located(f"{str(path)!r}, formula {name!r}"):
            table = _formula_table(name, value)
            restricted(table["formula"], terms, allowed)
            for option in sorted(table.keys() - OF_A_CALL - {"formula", "description"}):
                raise _of_the_application(option)


def _of_the_application(option: str) -> FormulaError:
    """Return the error for an option that an untrusted file must not have, or that is misspelt."""
    hint = "" if option in _OPTIONS else suggestion(option, OF_A_CALL)
    if hint:
        return FormulaError(f"an untrusted file has no option {option!r}{hint}")
    return FormulaError(f"only the application may set the option {option!r}")


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put the place of the fault before the message of a FormulaError."""
    try:
        yield
    except FormulaError as error:
        raise FormulaError(f"{where}: {error}") from None


def _toml(path: str | Path) -> Mapping[str, Any]:
    try:
        # Some editors begin a file with a byte order mark, which TOML does not allow.
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FormulaError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        is_value = str(error).startswith(("Invalid value", "Expected newline"))
        advice = "; put texts in quotes, also formulas and names of models" if is_value else ""
        if str(error).startswith(("Unescaped '\\'", "Invalid hex value")):
            advice = _BACKSLASHES
        raise FormulaError(f"{str(path)!r} is not TOML: {error}{advice}") from None


def _table(path: str | Path, data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = data.get(name, {})
    if name == "model" and isinstance(table, str):
        problem = f"{str(path)!r} has the option 'model' above its tables"
        raise FormulaError(f"{problem}; write [model], and below it model = {shown(table)}")
    if not isinstance(table, Mapping):
        raise FormulaError(f"{name!r} in {str(path)!r} must be a table, not {table!r}")
    return table


def _unknown(name: str, data: Mapping[str, Any]) -> str:
    """Return a message about a top-level name that is an option or an unknown table."""
    if name in _OPTIONS and not isinstance(data[name], Mapping):
        return f"has the option {name!r} above its tables; write [model] above it"
    hint = suggestion(name, _TABLES, f"; its tables are {', '.join(_TABLES)}", cutoff=0.75)
    return f"has an unknown table {name!r}{hint}"


def _formula_table(name: str, value: Any) -> dict[str, Any]:
    """Return a formula as a table: its text, a description, and options."""
    table = dict(value) if isinstance(value, Mapping) else {"formula": value}
    if not isinstance(table.get("formula"), str):
        form = 'a text, or a table such as {formula = "M", temperature = 0.5}'
        raise FormulaError(f"formula {name!r} is {form}, not {value!r}")
    if not isinstance(table.get("description", ""), str):
        problem = f"the description of formula {name!r} is a text"
        raise FormulaError(f"{problem}, not {table['description']!r}")
    return table


def _path_in(folder: Path, name: Any, always: bool = False) -> Any:
    """Return the path of a file that a term or an option of a persona file in `folder` names.

    An absolute path stays unchanged. So does a name that neither looks like a path nor exists in
    the folder: it names a model on the hub or in the package. With `always` every name is a path.
    Raises FormulaError for a path whose backslashes TOML read as escapes.
    """
    if isinstance(name, str) and not _ESCAPED.isdisjoint(name):
        problem = f"the path {name!r} contains a control character: TOML reads a backslash as an"
        raise FormulaError(f"{problem} escape{_BACKSLASHES}")
    if not isinstance(name, str) or folder == Path() or name.startswith(("/", "~")):
        return name
    is_gguf = name.lower().endswith(".gguf") and ":" not in name
    looks_like_path = always or is_gguf or name.startswith(("./", "../"))
    path = os.path.join(folder, name)
    return os.path.normpath(path) if looks_like_path or os.path.exists(path) else name


def _with_paths_in(folder: Path, node: Any) -> Any:
    """Return a formula with `folder` before the relative paths of its terms."""
    match node:
        case Prompted():
            model, adapter = (_path_in(folder, name) for name in (node.model, node.adapter))
            vectors = tuple((_path_in(folder, name), strength) for name, strength in node.vectors)
            return replace(node, model=model, adapter=adapter, vectors=vectors)
        case Classifier():
            guide = _with_paths_in(folder, node.guide)
            return replace(node, model=_path_in(folder, node.model), guide=guide)
        case NGram():
            return replace(node, path=_path_in(folder, node.path, always=True))
        case Node():
            return rebuilt(node, lambda part: _with_paths_in(folder, part))
    return node
