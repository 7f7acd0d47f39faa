"""The formulas of a file as plain data, each with the options that it is spoken with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from marith.errors import FormulaError
from marith.formula.binding import resolve
from marith.formula.files import LOWERED, load_file, read_term
from marith.formula.nodes import Formula
from marith.formula.parsing import read

ELSEWHERE = frozenset(("terms", "formula", "file"))  # a file says these in places of their own


@dataclass(frozen=True, slots=True)
class Personas:
    """What a file said when it was read, as plain data.

    `options` hold for all of its formulas; `formulas` give each, by name, the options of its own,
    its text among them. `spoken` says which of them options hold: a name, "" for none of them,
    or None where no options were made of the file yet. `kept` names the options that were given
    beside the file: they stay as they are when another formula of it is spoken.
    """

    path: str
    terms: dict[str, str]
    options: dict[str, Any]
    formulas: dict[str, dict[str, Any]]
    spoken: str | None = None
    kept: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | Path, model: str) -> Personas:
        """Read a file, whose formulas are over `model` where it names no other.

        Raises FormulaError for what `load_file` refuses, and for a formula that could be taken
        for a model.
        """
        file = load_file(path)
        default = "pocket" if model in file.formulas else model
        formulas = {
            name: {**file.own_options[name], "formula": as_text(formula)}
            for name, formula in file.formulas.items()
        }
        options = {"model": default, **file.options}
        for said in (options, *formulas.values()):
            named = said.get("model")
            if isinstance(named, str) and named in formulas:
                raise FormulaError(
                    f"{str(path)!r} has a formula and a model of one name, {named!r}"
                )
        return cls(str(path), terms_as_text(file.terms), options, formulas)

    def of(self, name: str) -> dict[str, Any]:
        """All options that the file gives where this formula of it is spoken, or "", none."""
        return {**self.options, **self.formulas.get(name, {}), "terms": self.terms}

    def names(self, model: object) -> bool:
        """Whether what is given as a model is a formula of the file."""
        return isinstance(model, str) and model in self.formulas

    def chosen(
        self, given: Mapping[str, Any], name: str, former: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Options given for a formula of the file, without those that the `former` one brought.

        One that is not `kept` was brought if its value is the former's: whoever makes options
        of all values of others, as LangChain's `configurable_fields` does, and gives such a value
        again beside another formula, gets that formula's. Raises FormulaError where another
        formula is given beside it.
        """
        if "formula" in given and self.spoken != "" and given["formula"] != former.get("formula"):
            raise self.second(name, given["formula"])
        stays = {*self.kept, *(k for k, v in given.items() if k not in former or v != former[k])}
        return {k: given[k] for k in given if k in stays and k not in ("model", "formula")}

    def second(self, name: str, formula: object) -> FormulaError:
        """What is wrong with giving a formula beside one of the file's."""
        problem = f"the model {name!r} is a formula of {self.path!r}"
        return FormulaError(f"{problem}; it is not given another, {str(formula)!r}")

    def settled(self, given: Mapping[str, Any], name: str, kept: tuple[str, ...]) -> dict[str, Any]:
        """Options as given, and as the file has them where they are not.

        Terms that are given before options were made of the file join its own. A name is kept
        only for the formula, over the model, that the file has under it.
        """
        said = self.of(name)
        merged = {**said, **given}
        if self.spoken is None and isinstance(given.get("terms"), Mapping):
            merged["terms"] = {**self.terms, **given["terms"]}
        merged |= {key: low for key, low in LOWERED.items() if self.options.get(key) is low}
        formula, model = merged.get("formula"), merged["model"]
        if name and (model != said["model"] or str(formula) != said["formula"]):
            name = ""
        return {**merged, "file": replace(self, spoken=name, kept=kept)}


def terms_as_text(terms: Mapping[str, Any]) -> dict[str, str]:
    """Terms, however they are written, as text. Raises FormulaError for what is none."""
    return {name: as_text(read_term(name, term)) for name, term in terms.items()}


@lru_cache(maxsize=16)  # options are made again for each call that gives one
def resolved(terms: tuple[tuple[str, str], ...]) -> Mapping[str, Formula]:
    """Every name of the terms of options with what it stands for, as `resolve` says."""
    return resolve(dict(terms))


def as_text(value: str | Formula) -> str:
    """A formula as text that reads back as itself. Raises FormulaError where it is too long."""
    if not isinstance(value, Formula):
        return value
    text = str(value)
    if read(text) != value:
        raise FormulaError(f"this formula cannot be written as text: {text[:80]!r}")
    return text
