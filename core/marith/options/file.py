"""A file of formulas that applications name, each with its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from marith.errors import FormulaError, RequestError, from_validation
from marith.formula.text.files import LOWERED, as_text, load_file, terms_as_text
from marith.request.plan import read_speculation

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
        for table in (options, *formulas.values()):
            named = table.get("model")
            if isinstance(named, str) and named in formulas:
                raise FormulaError(
                    f"{str(path)!r} has a formula and a model of one name, {named!r}"
                )
        return cls(str(path), terms_as_text(file.terms), options, formulas)

    def names(self, model: object) -> bool:
        """Whether what is given as a model is a formula of the file."""
        return isinstance(model, str) and model in self.formulas

    def apply(self, given: Mapping[str, Any], model: object, kind: type[Kind]) -> dict[str, Any]:
        """Options as they are given, and as the file has them where they are not.

        | options were made of the file | `model` is a formula of it | what stays of the given |
        | --- | --- | --- |
        | not yet | no  | all |
        | not yet | yes | all; another `formula` beside it raises FormulaError |
        | before  | no  | all |
        | before  | yes | what was given beside the file, or differs from what the former brought |

        Whoever makes options of all values of others, as LangChain's `configurable_fields` does,
        gives values that a former formula brought, and they are not kept for the next.
        """
        if not self.names(model):
            kept = _keepable(given, kind) if self.spoken is None else self.kept
            return self._completed(given, self.spoken or "", kept)
        stays = self._staying(given, str(model), kind)
        return self._completed(stays, str(model), _keepable(stays, kind))

    def switched(
        self, given: Mapping[str, Any], call: Mapping[str, Any], kind: type[Kind]
    ) -> dict[str, Any]:
        """Given options, those of the `model` that a call names in place of the former's."""
        model = call["model"]
        if not self.names(model):
            return {**given, "model": model, "file": replace(self, spoken="")}
        if "formula" in call:
            raise self._second(model, call["formula"])
        return self.apply({**given, "model": model}, model, kind)

    def with_kept(self, given: Iterable[str], kind: type[Kind]) -> Personas:
        """The same, where some options were given for a call: the next formula leaves them."""
        return replace(self, kept=_keepable([*self.kept, *given], kind))

    def _staying(self, given: Mapping[str, Any], name: str, kind: type[Kind]) -> dict[str, Any]:
        """The given options less those that the former formula brought, and less its name."""
        given, former = dict(given), {}
        if self.spoken is not None:
            if "speculation" in given:
                given["speculation"] = read_speculation(given["speculation"])
            made_before = made(kind, self, self.spoken)
            former = {option: getattr(made_before, option) for option in kind.model_fields}
        other = given.get("formula")
        if "formula" in given and self.spoken != "" and other != former.get("formula"):
            raise self._second(name, other)
        changed = (option for option, value in given.items() if _differs(value, option, former))
        stays = {*self.kept, *changed} - {"model", "formula"}
        return {option: value for option, value in given.items() if option in stays}

    def _completed(
        self, given: Mapping[str, Any], name: str, kept: tuple[str, ...]
    ) -> dict[str, Any]:
        """Given options over the file's. Its terms are joined by those given at first.

        A name is kept only for the formula, over the model, that the file has under it.
        """
        filed = {**self.options, **self.formulas.get(name, {}), "terms": self.terms}
        merged = {**filed, **given}
        if self.spoken is None and isinstance(given.get("terms"), Mapping):
            merged["terms"] = {**self.terms, **given["terms"]}
        merged |= {key: low for key, low in LOWERED.items() if self.options.get(key) is low}
        formula, model = merged.get("formula"), merged["model"]
        if name and (model != filed["model"] or str(formula) != filed["formula"]):
            name = ""
        return {**merged, "file": replace(self, spoken=name, kept=kept)}

    def _second(self, name: str, formula: object) -> FormulaError:
        """What is wrong with giving a formula beside one of the file's."""
        problem = f"the model {name!r} is a formula of {self.path!r}"
        return FormulaError(f"{problem}; it is not given another, {str(formula)!r}")


def _keepable(given: Iterable[str], kind: type[BaseModel]) -> tuple[str, ...]:
    """The options among the given that another formula of a file leaves as they are."""
    return tuple(sorted({*given} & ({*kind.model_fields} - {"model", *ELSEWHERE})))


def _differs(value: Any, option: str, former: Mapping[str, Any]) -> bool:
    return option not in former or bool(value != former[option])


_FILED: TypeAdapter[Personas] = TypeAdapter(Personas)


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
                raise RequestError(f"this was read of no file: {from_validation(error)}") from None
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
        raise FormulaError(f"{where}: {from_validation(error)}") from None
