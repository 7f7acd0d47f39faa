"""The persona file: named formulas, each with its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from marith.errors import FormulaError, RequestError, from_validation, option_hint, suggestion
from marith.formula.text.term_data import TermData, as_text, terms_as_data
from marith.options.option_checks import ADVICE, variable
from marith.options.persona_file import load_file
from marith.options.untrusted import LOWERED
from marith.request.other_names import advice_for
from marith.request.plan import read_speculation

Kind = TypeVar("Kind", bound=BaseModel)
# Options that a table of a persona file must not have.
ELSEWHERE = frozenset(("terms", "formula", "file", "constraints", "loaded_engine"))


@dataclass(frozen=True, slots=True)
class Personas:
    """The content of a persona file at the time it was read, as plain data.

    `options` apply to all formulas of the file. `formulas` maps each name to the options of that
    formula alone, with its text. `descriptions` are for people, and "" for a formula without one.
    `formula_name` is the formula that the options have now: its name, "" for a formula that is not
    in the file, or None before options are made.
    """

    path: str
    terms: dict[str, TermData]
    options: dict[str, Any]
    formulas: dict[str, dict[str, Any]]
    formula_name: str | None = None
    descriptions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path, model: str) -> Personas:
        """Read a file. `model` is the default model of its formulas.

        Raises FormulaError as `load_file` does, and for a formula with the name of a model in the
        file.
        """
        file = load_file(path)
        default = "pocket" if model in file.formulas else model
        formulas = {
            name: {**file.own_options[name], "formula": as_text(formula)}
            for name, formula in file.formulas.items()
        }
        options = {"model": default, **file.options}
        for table in (options, *formulas.values()):
            name = table.get("model")
            if isinstance(name, str) and name in formulas:
                raise FormulaError(f"{str(path)!r} has a formula and a model of one name, {name!r}")
        terms, descriptions = terms_as_data(file.terms), dict(file.descriptions)
        return cls(str(path), terms, options, formulas, descriptions=descriptions)

    def names(self, model: object) -> bool:
        """Return whether a value of the option `model` is the name of a formula of the file."""
        return isinstance(model, str) and model in self.formulas

    def require(self, name: object) -> None:
        """Raise FormulaError unless the file has a formula of this name."""
        if not self.names(name):
            there_are = f"; there are {', '.join(self.formulas) or 'none'}"
            hint = suggestion(name, self.formulas, there_are)
            raise FormulaError(f"{self.path!r} has no formula {name!r}{hint}")

    def over_model(self, model: object) -> Personas:
        """Return these personas with all formulas on one model, not on the models in the file."""
        formulas = {
            name: {option: value for option, value in each.items() if option != "model"}
            for name, each in self.formulas.items()
        }
        return replace(self, options={**self.options, "model": model}, formulas=formulas)

    def require_model(self, model: object) -> None:
        """Raise FormulaError for a mistyped formula: a bare name that no local model has.

        Any `owner/name` is accepted, and so are models that the file names, because they may be on
        the hub.
        """
        tables = (self.options, *self.formulas.values())
        if isinstance(model, str) and not any(each.get("model") == model for each in tables):
            _require_here(self.path, self.formulas, model)

    def apply(self, options: Mapping[str, Any], model: object, kind: type[Kind]) -> dict[str, Any]:
        """Return the options that are set, completed from the file.

        | options were made from the file | `model` is a formula of it | which set options count |
        | --- | --- | --- |
        | not yet | no  | all |
        | not yet | yes | all; another `formula` raises FormulaError |
        | before  | no  | all |
        | before  | yes | those that differ from the former formula's |

        The last row is for LangChain's `configurable_fields`, which makes new options from all
        values of old options: values that came from the former formula must not override the next
        formula's.
        """
        if not self.names(model):
            self.require_model(model)
            return self._completed(options, self.formula_name or "")
        return self._completed(self._counting(options, str(model), kind), str(model))

    def switched(
        self, options: Mapping[str, Any], call: Mapping[str, Any], kind: type[Kind]
    ) -> dict[str, Any]:
        """Return the options for a call whose `model` may be a formula of the file.

        The options of that formula replace the options of the former formula. Raises FormulaError
        if the call also has a `formula`.
        """
        model = call["model"]
        if not self.names(model):
            self.require_model(model)
            return {**options, "model": model, "file": replace(self, formula_name="")}
        if "formula" in call:
            raise self._two_formulas(model, call["formula"])
        return self.apply({**options, "model": model}, model, kind)

    def _counting(self, options: Mapping[str, Any], name: str, kind: type[Kind]) -> dict[str, Any]:
        """Return the set options without the formula, and without the former formula's values."""
        options, former = dict(options), {}
        if self.formula_name is not None:
            if "speculation" in options:
                options["speculation"] = read_speculation(options["speculation"])
            former_options = made(kind, self, self.formula_name)
            former = {option: getattr(former_options, option) for option in kind.model_fields}
        formula = options.get("formula")
        if "formula" in options and self.formula_name != "" and formula != former.get("formula"):
            raise self._two_formulas(name, formula)
        return {
            option: value
            for option, value in options.items()
            if option not in ("model", "formula")
            and (option not in former or value != former[option])
        }

    def _completed(self, options: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return the file's options, overridden by `options`.

        When options are made for the first time, their terms are added to the file's. The name of
        the formula is kept only while formula and model are unchanged from the file.
        """
        from_file = {**self.options, **self.formulas.get(name, {}), "terms": self.terms}
        merged = {**from_file, **options}
        if self.formula_name is None and isinstance(options.get("terms"), Mapping):
            merged["terms"] = {**self.terms, **options["terms"]}
        merged |= {key: low for key, low in LOWERED.items() if self.options.get(key) is low}
        formula, model = merged.get("formula"), merged["model"]
        if name and (model != from_file["model"] or str(formula) != from_file["formula"]):
            name = ""
        return {**merged, "file": replace(self, formula_name=name)}

    def _two_formulas(self, name: str, formula: object) -> FormulaError:
        """Return the error for a `formula` that is set together with a formula of the file."""
        problem = f"the model {name!r} is a formula of {self.path!r}"
        return FormulaError(f"{problem}; remove the other formula, {str(formula)!r}")


def _require_here(path: str, formulas: Iterable[str], model: str) -> None:
    """Raise FormulaError unless a name has an owner, or is the name of a local model."""
    from marith.scoring.weights.locate import EMBEDDED, is_here  # slow to import

    if "/" in model or is_here(model):
        return
    names = [*formulas]
    listed = f"; there are {', '.join(names) or 'none'}, and models by owner/name"
    hint = suggestion(model, [*names, *EMBEDDED], listed)
    raise FormulaError(f"{path!r} has no formula {model!r}, and no local model has that name{hint}")


_PERSONAS: TypeAdapter[Personas] = TypeAdapter(Personas)


def opened(file: Any, kind: type[BaseModel]) -> Personas | None:
    """Return the personas of a file. `file` is a path, or a file that was read before.

    A path is read, and its formulas are checked: options of `kind` are made for each of them, over
    MARITH_MODEL if the file names no model. Raises FormulaError for any fault in the file, and
    RequestError for any other value.
    """
    match file:
        case None | Personas():
            return file
        case str() | Path():
            personas = Personas.load(file, variable("model") or "pocket")
            for name in ("", *personas.formulas):
                _check(kind, personas, name)
            return personas
        case Mapping():
            try:
                return _PERSONAS.validate_python(file)
            except ValidationError as error:
                raise RequestError(f"invalid persona file: {from_validation(error)}") from None
    raise RequestError(f"file must be a path, not {file!r}")


def made(kind: type[Kind], file: Personas, name: str) -> Kind:
    """Return the options of a file with one of its formulas; "" is the formula `M`."""
    plain = {"model": file.options["model"], "formula": "M"}
    unused = replace(file, formula_name=None)
    return kind(file=unused, **({"model": name} if name else plain))


def _check(kind: type[BaseModel], file: Personas, name: str) -> None:
    """Raise FormulaError if the options of one formula, or the options of all (""), are invalid."""
    where = f"{file.path!r}, " + (f"formula {name!r}" if name else "'model'")
    options = set(file.formulas[name]) - {"formula"} if name else set(file.options)
    if "allowed" in options:
        raise FormulaError(f"{where}: allowed is set in code, not in a file")
    elsewhere = {*ELSEWHERE, *(("trusted", "frozen") if name else ())}  # they apply to all formulas
    known = sorted(set(kind.model_fields) - elsewhere)
    for option in sorted(options.difference(known)):
        hint = option_hint(option, known, {**advice_for(known), **ADVICE})
        raise FormulaError(f"{where}: there is no option {option!r}{hint}")
    try:
        made(kind, file, name)
    except ValidationError as error:
        raise FormulaError(f"{where}: {from_validation(error)}") from None
