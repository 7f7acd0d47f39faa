"""A file of formulas that applications name, each with the options that it is spoken with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from marith.errors import FormulaError, RequestError
from marith.formula.meaning.binding import resolve
from marith.formula.text.files import LOWERED, as_text, load_file, terms_as_text
from marith.formula.tree.nodes import Formula

Kind = TypeVar("Kind", bound=BaseModel)
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


_FILED: TypeAdapter[Personas] = TypeAdapter(Personas)


@lru_cache(maxsize=16)  # options are made again for each call that gives one
def resolved(terms: tuple[tuple[str, str], ...]) -> Mapping[str, Formula]:
    """Every name of the terms of options with what it stands for, as `resolve` says."""
    return resolve(dict(terms))


def opened(file: Any, kind: type[BaseModel], model: str) -> Personas | None:
    """A file by path, every formula of it tried as options of `kind`; or what was read of one.

    Its formulas are over `model` where the file names no other. Raises FormulaError for a file in
    which anything is wrong, and RequestError for what is none.
    """
    match file:
        case None | Personas():
            return file
        case str() | Path():
            read = Personas.load(file, model)
            for name in ("", *read.formulas):
                _try(kind, read, name)
            return read
        case Mapping():
            try:
                return _FILED.validate_python(file)
            except ValidationError as error:
                raise RequestError(f"this was read of no file: {_sentence(error)}") from None
    raise RequestError(f"a file has a path, not {file!r}")


def made(kind: type[Kind], file: Personas, name: str) -> Kind:
    """The options of a file and one formula of it, or "", none, with nothing else given."""
    plain = {"model": file.options["model"], "formula": "M"}
    fresh = replace(file, spoken=None, kept=())
    return kind(file=fresh, **({"model": name} if name else plain))


def _try(kind: type[BaseModel], file: Personas, name: str) -> None:
    """Raises FormulaError where the file gives a formula, or all, what is no option."""
    where = f"{file.path!r}, " + (f"formula {name!r}" if name else "'model'")
    own = set(file.formulas[name]) - {"formula"} if name else set(file.options)
    elsewhere = {*ELSEWHERE, *(("trusted", "frozen") if name else ())}  # for all formulas alike
    for option in sorted(own - (set(kind.model_fields) - elsewhere)):
        raise FormulaError(f"{where}: there is no option {option!r}")
    try:
        made(kind, file, name)
    except ValidationError as error:
        raise FormulaError(f"{where}: {_sentence(error)}") from None


def _sentence(error: ValidationError) -> str:
    """The first complaint of pydantic, with the value that it is about."""
    first = error.errors()[0]
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {first['input']!r}"
