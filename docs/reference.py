"""Write docs/langchain_reference.md from the docstrings of what langchain_marith exports."""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import langchain_marith
import marith

PAGE = Path(__file__).with_name("langchain_reference.md")
HEAD = """# API reference of the LangChain adapter

Written from docstrings by `python docs/reference.py`. What each option means is in
[the table of the adapters](adapters.md#what-they-share)."""
SHARED = (
    "Both classes have these options, by name in the constructor or in a call, and these methods."
)
OURS = ("marith", "langchain_marith")


def methods(kinds: Iterable[type]) -> dict[str, Any]:
    """The public methods that these classes define themselves, by name."""
    found = {name: value for kind in kinds for name, value in vars(kind).items()}
    functions = {name: getattr(value, "__func__", value) for name, value in sorted(found.items())}
    return {
        name: function
        for name, function in functions.items()
        if inspect.isfunction(function) and not name.startswith("_")
        if function.__module__.split(".")[0] in OURS
    }


def options() -> str:
    lines = ["| option | type | default |", "| --- | --- | --- |"]
    hints = marith.Options.__annotations__
    for name, field in marith.Options.model_fields.items():
        hint = str(hints[name]).replace("|", "\\|")
        default = field.get_default(call_default_factory=True)
        lines.append(f"| `{name}` | `{hint}` | `{default!r}` |")
    return "\n".join(lines)


def told(name: str, function: Any) -> list[str]:
    signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(function)))
    return [f"### {name}", f"```text\n{name}{signature}\n```", str(inspect.getdoc(function))]


def section(title: str, said: list[str], found: dict[str, Any]) -> list[str]:
    parts = [f"## {title}", *said]
    for name, function in found.items():
        parts += told(name, function)
    return parts


def page() -> str:
    exported = [getattr(langchain_marith, name) for name in langchain_marith.__all__]
    bases = [set(kind.__mro__) for kind in exported]
    shared = [kind for kind in reversed(exported[0].__mro__) if all(kind in base for base in bases)]
    parts = [HEAD]
    for kind in exported:
        own = [each for each in reversed(kind.__mro__) if each not in shared]
        parts += section(kind.__name__, [str(inspect.getdoc(kind))], methods(own))
    parts += section("What both share", [SHARED, options()], methods(shared))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
