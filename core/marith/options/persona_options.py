"""Open a persona file, complete options from it, and switch to another persona."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from marith.errors import FormulaError, RequestError, from_validation, suggestion
from marith.options.option_checks import hint_of, variable
from marith.options.persona_file import PersonaFile, load_file
from marith.options.untrusted import LOWERED
from marith.request.plan import read_speculation

Kind = TypeVar("Kind", bound=BaseModel)
# Options that a table of a persona file must not have.
ELSEWHERE = frozenset(("terms", "formula", "file", "constraints", "loaded_engine"))
DATA: TypeAdapter[PersonaFile] = TypeAdapter(PersonaFile)


def open_file(file: Any, kind: type[BaseModel]) -> PersonaFile | None:
    """Return a persona file from a path, a PersonaFile, or the data of a file.

    When options are first made from the file, its formulas are checked: options of `kind` are made
    for each formula. If the file names no model, these options get the model that MARITH_MODEL
    names, or "pocket". Raises FormulaError for any fault in the file, and RequestError if `file` is
    invalid data or none of these kinds.
    """
    match file:
        case None:
            return None
        case str() | Path():
            file = load_file(file)
        case Mapping():
            try:
                file = DATA.validate_python(file)
            except ValidationError as error:
                raise RequestError(f"invalid persona file: {from_validation(error)}") from None
        case PersonaFile():
            pass
        case _:
            raise RequestError(f"file must be a path, not {file!r}")
    is_checked = file.checked and "model" in file.options
    return file if is_checked else _checked(file, kind)


def _checked(file: PersonaFile, kind: type[BaseModel]) -> PersonaFile:
    """Return a file that names its model. Options are made for each of its formulas, as a check."""
    file = replace(_with_default_model(file, variable("model") or "pocket"), checked=True)
    for name in ("", *file.formulas):
        _check(kind, file, name)
    return file


def _with_default_model(file: PersonaFile, model: str) -> PersonaFile:
    """Return a file that names a model: its own, or else `model`.

    If `model` is the name of a formula, "pocket" is used instead. Raises FormulaError if a formula
    has the same name as a model in the file.
    """
    default = "pocket" if model in file.formulas else model
    options = {"model": default, **file.options}
    for table in (options, *file.own_options.values()):
        if is_formula(file, name := table.get("model")):
            raise FormulaError(f"{file.path!r} has a formula and a model named {name!r}")
    return replace(file, options=options)


def _check(kind: type[BaseModel], file: PersonaFile, name: str) -> None:
    """Raise FormulaError for invalid options of a formula, or of all formulas if `name` is ""."""
    where = f"{file.path!r}, " + (f"formula {name!r}" if name else "'model'")
    options = file.own_options[name] if name else file.options
    if "allowed" in options:
        raise FormulaError(f"{where}: allowed is set in code, not in a file")
    # `trusted` and `frozen` can be set only for the whole file, not for one formula.
    elsewhere = ELSEWHERE | LOWERED.keys() if name else ELSEWHERE
    known = sorted(kind.model_fields.keys() - elsewhere)
    for option in sorted(options.keys() - known):
        hint = hint_of(option, known)
        raise FormulaError(f"{where}: there is no option {option!r}{hint}")
    try:
        _made(kind, file, name)
    except ValidationError as error:
        raise FormulaError(f"{where}: {from_validation(error)}") from None


def _made(kind: type[Kind], file: PersonaFile, name: str) -> Kind:
    """Return the options of a file with one of its formulas; "" is the formula `M`."""
    plain = {"model": file.options["model"], "formula": "M"}
    unused = replace(file, formula_name=None)
    return kind(file=unused, **({"model": name} if name else plain))


def is_formula(file: PersonaFile, model: object) -> bool:
    """Return whether a value of the option `model` is the name of a formula of the file."""
    return isinstance(model, str) and model in file.formulas


def require_formula(file: PersonaFile, name: object) -> None:
    """Raise FormulaError unless the file has a formula of this name."""
    if not is_formula(file, name):
        there_are = f"; there are {', '.join(file.formulas) or 'none'}"
        hint = suggestion(name, file.formulas, there_are)
        raise FormulaError(f"{file.path!r} has no formula {name!r}{hint}")


def replace_models(file: PersonaFile, model: object) -> PersonaFile:
    """Return the file with `model` for all its formulas, instead of the models in the file.

    Raises FormulaError for a model that is a formula of the file.
    """
    if is_formula(file, model):
        problem = f"{model!r} is a formula of {file.path!r}, and another formula is named already"
        raise FormulaError(f"{problem}; write from_file(path, {model!r})")
    own_options = {
        name: {option: value for option, value in own.items() if option != "model"}
        for name, own in file.own_options.items()
    }
    return replace(file, options={**file.options, "model": model}, own_options=own_options)


def complete_options(
    file: PersonaFile, options: Mapping[str, Any], model: object, kind: type[BaseModel]
) -> dict[str, Any]:
    """Return the options of the file, overridden by the options that are set.

    A file was used before if options were already made from it.

    | file was used before | `model` is a formula of the file | options that override the file's |
    | --- | --- | --- |
    | no  | no  | all |
    | no  | yes | all; another `formula` raises FormulaError |
    | yes | no  | all |
    | yes | yes | the options that differ from the former formula's |

    The last row is for LangChain's `configurable_fields`, which makes new options from all values
    of old options: values that came from the former formula must not override the next formula's.
    """
    if not is_formula(file, model):
        _require_model(file, model)
        return _joined(file, options, file.formula_name or "")
    return _joined(file, _counting(file, options, str(model), kind), str(model))


def switch_persona(
    file: PersonaFile, options: Mapping[str, Any], call: Mapping[str, Any], kind: type[BaseModel]
) -> dict[str, Any]:
    """Return the options for a call whose `model` may be a formula of the file.

    The options of that formula replace the options of the former formula. Raises FormulaError if
    the call also has a `formula`.
    """
    model = call["model"]
    if not is_formula(file, model):
        _require_model(file, model)
        return {**options, "model": model, "file": replace(file, formula_name="")}
    if "formula" in call:
        raise _two_formulas(file, model, call["formula"])
    return complete_options(file, {**options, "model": model}, model, kind)


def _counting(
    file: PersonaFile, options: Mapping[str, Any], name: str, kind: type[BaseModel]
) -> dict[str, Any]:
    """Return the options that are set and that override the options of the file.

    `model`, `formula`, and options that have the former formula's value are left out.
    """
    options, former = dict(options), {}
    if file.formula_name is not None:
        if "speculation" in options:
            options["speculation"] = read_speculation(options["speculation"])
        former_options = _made(kind, file, file.formula_name)
        former = {option: getattr(former_options, option) for option in kind.model_fields}
    formula = options.get("formula")
    if "formula" in options and file.formula_name != "" and formula != former.get("formula"):
        raise _two_formulas(file, name, formula)
    return {
        option: value
        for option, value in options.items()
        if option not in ("model", "formula") and (option not in former or value != former[option])
    }


def _joined(file: PersonaFile, options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the file's options, overridden by `options`.

    When options are made for the first time, their terms are added to the file's. The name of the
    formula is kept only if the formula and the model are the same as in the file.
    """
    from_file = {**file.options, **file.own_options.get(name, {}), "terms": file.terms}
    if name:
        from_file["formula"] = file.formulas[name]
    merged = {**from_file, **options}
    if file.formula_name is None and isinstance(options.get("terms"), Mapping):
        merged["terms"] = {**file.terms, **options["terms"]}
    merged |= {key: low for key, low in LOWERED.items() if file.options.get(key) is low}
    formula, model = merged.get("formula"), merged["model"]
    if name and (model != from_file["model"] or str(formula) != str(from_file["formula"])):
        name = ""
    return {**merged, "file": replace(file, formula_name=name)}


def _require_model(file: PersonaFile, model: object) -> None:
    """Raise FormulaError if `model`, which is no formula of the file, looks like a mistyped one.

    It does if it has no slash and no local model has that name. Any `owner/name` is accepted, and
    so are models that the file names, because they may be on the hub.
    """
    tables = (file.options, *file.own_options.values())
    is_named = any(table.get("model") == model for table in tables)
    if not isinstance(model, str) or is_named or "/" in model:
        return
    # The module `locate` is slow to import.
    from marith.scoring.weights.locate import EMBEDDED, is_here

    if is_here(model):
        return
    names = [*file.formulas]
    listed = f"; there are {', '.join(names) or 'none'}, and models by owner/name"
    hint = suggestion(model, [*names, *EMBEDDED], listed)
    problem = f"{file.path!r} has no formula {model!r}, and no local model has that name"
    raise FormulaError(f"{problem}{hint}")


def _two_formulas(file: PersonaFile, name: str, formula: object) -> FormulaError:
    """Return the error for a `formula` that is set together with a formula of the file."""
    problem = f"the model {name!r} is a formula of {file.path!r}"
    return FormulaError(f"{problem}; remove the other formula, {str(formula)!r}")
