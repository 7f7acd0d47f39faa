"""Write the adapters' pages in docs/reference from the docstrings of what they export."""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import langchain_marith
import llamaindex_marith
import marith

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
HEAD = """# API reference of the {name} adapter

Written from docstrings by `python -m tools.reference`. What each option means is in
[the table of the adapters](adapters.md#what-they-share)."""
SHARED = "These options are for the constructor or for a call, by name, beside these methods."
PAGES = {
    "langchain": (langchain_marith, "LangChain"),
    "llamaindex": (llamaindex_marith, "LlamaIndex"),
}
OURS = ("marith", *(f"{name}_marith" for name in PAGES))


def methods(kinds: Iterable[type]) -> dict[str, Any]:
    """The public methods that these classes define themselves, by name."""
    found = {name: value for kind in kinds for name, value in vars(kind).items()}
    functions = {
        name: inspect.unwrap(getattr(value, "__func__", value))
        for name, value in sorted(found.items())
        if inspect.isroutine(value) and not name.startswith("_")
    }
    return {
        name: function
        for name, function in functions.items()
        if inspect.isfunction(function) and function.__module__.split(".")[0] in OURS
    }


def options() -> str:
    lines = ["| option | type | default |", "| --- | --- | --- |"]
    hints = marith.Options.__annotations__
    for name, field in marith.Options.model_fields.items():
        hint = str(hints[name]).replace("|", "\\|")
        default = field.get_default(call_default_factory=True)
        lines.append(f"| `{name}` | `{hint}` | `{default!r}` |")
    return "\n".join(lines)


def told(name: str, function: Any, level: str) -> list[str]:
    signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(function)))
    return [f"{level} {name}", f"```text\n{name}{signature}\n```", str(inspect.getdoc(function))]


def section(title: str, said: list[str], found: dict[str, Any]) -> list[str]:
    parts = [f"## {title}", *said]
    for name, function in found.items():
        parts += told(name, function, "###")
    return parts


def page(package: ModuleType, name: str) -> str:
    exported = {each: getattr(package, each) for each in package.__all__}
    kinds = [value for value in exported.values() if isinstance(value, type)]
    bases = [set(kind.__mro__) for kind in kinds]
    shared = [kind for kind in reversed(kinds[0].__mro__) if all(kind in base for base in bases)]
    if len(kinds) == 1:  # what it shares is what every adapter inherits
        shared = [marith.Options]
    parts = [HEAD.format(name=name)]
    for kind in kinds:
        own = [each for each in reversed(kind.__mro__) if each not in shared]
        parts += section(kind.__name__, [str(inspect.getdoc(kind))], methods(own))
    for each, value in exported.items():
        parts += told(each, value, "##") if inspect.isfunction(value) else []
    parts += section("Options", [SHARED, options()], methods(shared))
    return "\n\n".join(parts) + "\n"


def pages() -> dict[Path, str]:
    return {FOLDER / f"{key}_marith.md": page(*said) for key, said in PAGES.items()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
