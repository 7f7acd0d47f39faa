"""Write the sections of pages: a class, a function, a table of fields."""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, ForwardRef

from pydantic import BaseModel

from tools.reference.signatures import (
    Links,
    documented,
    fenced,
    linked_type,
    signature,
    table,
    types_line,
)

OURS = ("marith", "langchain_marith", "llamaindex_marith")
# A default with more characters than this does not fit a table.
LONGEST = 200
# Methods and properties that other rooms use, and callers do not need.
FOR_THE_ENGINE = {
    "Ticket": ("put", "end"),
    "Engine": ("open", "open_at", "run", "start"),
    "Request": ("meanings", "answers_in_json", "steered"),
    "Sampling": ("penalises", "warping"),
    "Stop": ("ends",),
    "Ban": ("folded",),
    "Grammar": ("part",),
    "Tools": ("named", "callable", "of_schema", "schema_of"),
}


def function_section(name: str, function: Any, links: Links, level: str = "##") -> list[str]:
    """Return a heading, a signature and a docstring."""
    call = signature(name, function)
    text = documented(function, links, name)
    return [f"{level} {name}", fenced(call), text, types_line(call, links, name)]


def class_section(kind: type, links: Links, kinds: Sequence[type] | None = None) -> list[str]:
    """Return a class's docstring, its fields, and the methods that `kinds` or its bases define."""
    parts = [f"## {kind.__name__}", documented(kind, links, kind.__name__)]
    if is_dataclass(kind):
        parts.append(fields_table(kind, links))
    parts += property_section(kinds or kind.__mro__[::-1], links)
    return parts + methods_section(kind, links, kinds)


def value_section(name: str, value: Any, links: Links) -> list[str]:
    """Return the section of a class, a function, or a value that is neither."""
    if isinstance(value, type):
        return class_section(value, links)
    if callable(value):
        return function_section(name, value, links)
    written = repr(value)
    # Quotation marks are double, as the formatter writes them.
    quoted = written if '"' in written else written.replace("'", '"')
    return [f"## {name}", fenced(f"{name} = {quoted}")]


def methods_section(kind: type, links: Links, kinds: Sequence[type] | None = None) -> list[str]:
    """Return the public methods of a class, in alphabetical order."""
    parts = []
    for name, function in methods(kinds or kind.__mro__[::-1]).items():
        if name in FOR_THE_ENGINE.get(kind.__name__, ()):
            continue
        call = signature(name, function)
        parts += [f"### {kind.__name__}.{name}", fenced(call)]
        parts.append(documented(function, links, kind.__name__))
        parts.append(types_line(call, links, kind.__name__))
    return parts


def methods(kinds: Iterable[type]) -> dict[str, Callable[..., Any]]:
    """Return the public methods that these classes define themselves, by name."""
    found = {name: value for kind in kinds for name, value in vars(kind).items()}
    functions = {
        name: _undecorated(inspect.unwrap(getattr(value, "__func__", value)))
        for name, value in sorted(found.items())
        if inspect.isroutine(value) and not name.startswith("_")
    }
    return {name: function for name, function in functions.items() if _of_ours(function)}


def _undecorated(function: Any) -> Any:
    """Return the original function. LlamaIndex's decorators do not set `__wrapped__`."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    same = (of for of in cells if getattr(of, "__qualname__", "") == function.__qualname__)
    return next(filter(inspect.isfunction, same), function)


def _of_ours(function: Any) -> bool:
    return inspect.isfunction(function) and function.__module__.split(".")[0] in OURS


def fields_table(kind: type, links: Links) -> str:
    """Return a table of the public fields that our classes give a dataclass."""
    ours = [base for base in kind.__mro__ if base.__module__.split(".")[0] in OURS]
    named = {name for base in ours for name in vars(base).get("__annotations__", ())}
    rows: list[tuple[str, ...]] = [
        (f"`{field.name}`", linked_type(str(field.type), links), _default(field))
        for field in fields(kind)
        if field.name in named and not field.name.startswith("_") and field.repr
    ]
    # A column without a text is left out.
    if not any(row[2] for row in rows):
        rows = [row[:2] for row in rows]
    return table(("field", "type", "default")[: len(rows[0])], rows) if rows else ""


def _default(field: Field[Any]) -> str:
    if field.default is not MISSING:
        default = field.default
        plain = is_dataclass(default) and not isinstance(default, type)
        return f"`{type(default).__name__}()`" if plain else f"`{default!r}`"
    if field.default_factory is MISSING:
        return ""
    made = field.default_factory()
    # The description of the class says what a long default consists of.
    return f"`{made!r}`" if len(repr(made)) <= LONGEST else f"{len(made)} values"


def property_section(kinds: Iterable[type], links: Links) -> list[str]:
    """Return a table of the properties that these classes define, with types and docstrings."""
    rows = [
        (
            f"`{name}`",
            linked_type(str(value.fget.__annotations__.get("return", "")), links),
            " ".join(documented(value, links).split()),
        )
        for base in kinds
        for name, value in vars(base).items()
        if isinstance(value, property)
        and not name.startswith("_")
        and _of_ours(value.fget)
        and name not in FOR_THE_ENGINE.get(base.__name__, ())
    ]
    return [table(("property", "type", "meaning"), rows)] if rows else []


def options_table(kind: type[BaseModel], links: Links) -> str:
    """Return a table of the fields of a pydantic model: type, default, and description."""
    rows = []
    hints = ChainMap(*(vars(base).get("__annotations__", {}) for base in kind.__mro__))
    for name, field in kind.model_fields.items():
        default = field.get_default(call_default_factory=True)
        hint = linked_type(str(hints[name]), links)
        rows.append((f"`{field.alias or name}`", hint, f"`{default!r}`", field.description or ""))
    return table(("option", "type", "default", "meaning"), rows)


def aliases_table(aliases: Mapping[str, Any], links: Links) -> str:
    """Return a table of type aliases and their definitions."""
    rows = []
    for name, alias in aliases.items():
        text = alias.__forward_arg__ if isinstance(alias, ForwardRef) else str(alias)
        rows.append((f"`{name}`", linked_type(text.replace("typing.", ""), links)))
    return table(("name", "stands for"), rows)
