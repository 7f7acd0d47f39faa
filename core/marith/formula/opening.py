"""A file of formulas opened for the options that it is spoken with, every formula of it tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from marith.errors import FormulaError, RequestError
from marith.formula.personas import ELSEWHERE, Personas

Kind = TypeVar("Kind", bound=BaseModel)

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
