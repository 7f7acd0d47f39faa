"""Read named formulas, from persona files or from text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marith import Formula, RequestError, load_file


@dataclass(frozen=True, slots=True)
class NamedFormula:
    """A formula, and its name in the table of results."""

    name: str
    formula: str


@dataclass(frozen=True, slots=True)
class NamedFormulas:
    """Named formulas, the terms of their files, and notes about these files."""

    lines: tuple[NamedFormula, ...] = ()
    terms: Mapping[str, Formula] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_formulas(formulas: Sequence[str]) -> NamedFormulas:
    """Return the named formulas of `formulas`, in the same order.

    Each text is the path of a `.toml` file (see `load_file`), NAME=FORMULA, or a formula. A formula
    without a name is its own name. Raises FormulaError or RequestError.
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
        raise RequestError(f"{str(path)!r} has no formulas: write them in a table [formulas]")
    lines += [NamedFormula(name, str(formula)) for name, formula in file.formulas.items()]
    terms |= file.terms
    own_options = (name for names in file.own_options.values() for name in names)
    options = dict.fromkeys([*file.options, *own_options])
    if options:
        # All formulas of an evaluation are sampled alike, so that their results can be compared.
        named = ", ".join(options)
        notes.append(f"an evaluation ignores the options of {str(path)!r}: {named}")


def _line(text: str) -> NamedFormula:
    """Return the named formula of NAME=FORMULA. A formula without a name is its own name."""
    name, equals, formula = text.partition("=")
    # An = after a bracket or a quotation mark belongs to a call in the formula.
    if not equals or any(mark in name for mark in "(\"'"):
        return NamedFormula(text.strip(), text.strip())
    return NamedFormula(name.strip(), formula.strip())
