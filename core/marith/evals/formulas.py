"""Named formulas: from a file, from personas, or as they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marith import Formula, RequestError, load_file


@dataclass(frozen=True, slots=True)
class NamedFormula:
    """A formula by name: a line of the table."""

    name: str
    formula: str


@dataclass(frozen=True, slots=True)
class NamedFormulas:
    """Formulas by name, the terms that their file has, and notes about it."""

    lines: tuple[NamedFormula, ...] = ()
    terms: Mapping[str, Formula] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_formulas(formulas: Sequence[str]) -> NamedFormulas:
    """Return formulas in the order in which they are given.

    Each text is a TOML file as `load_file` reads it, `name = formula`, or a formula that is its own
    name. Raises FormulaError or RequestError.
    """
    lines: list[NamedFormula] = []
    terms: dict[str, Formula] = {}
    notes: list[str] = []
    for text in formulas:
        if text.endswith(".toml"):
            _add_personas(Path(text), lines, terms, notes)
        else:
            lines.append(_line(text))
    return NamedFormulas(tuple(lines), terms, tuple(notes))


def _add_personas(
    path: Path, lines: list[NamedFormula], terms: dict[str, Formula], notes: list[str]
) -> None:
    file = load_file(path)
    if not file.formulas:
        raise RequestError(f"{str(path)!r} has no formulas, in a table [formulas]")
    lines += [NamedFormula(name, str(formula)) for name, formula in file.formulas.items()]
    terms |= file.terms
    own_options = (name for names in file.own_options.values() for name in names)
    options = dict.fromkeys([*file.options, *own_options])
    if options:
        named = ", ".join(options)
        notes.append(f"options of {str(path)!r} do not hold in an evaluation: {named}")


def _line(text: str) -> NamedFormula:
    """Return the formula of NAME=FORMULA; a name has no bracket and no quotation mark."""
    name, equals, formula = text.partition("=")
    if not equals or any(mark in name for mark in "(\"'"):
        return NamedFormula(text.strip(), text.strip())
    return NamedFormula(name.strip(), formula.strip())
