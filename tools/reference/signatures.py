"""Write a signature, a type and a docstring in Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

WIDTH = 90  # of a signature on one line
_QUOTED = re.compile(r"(?<!\[)`(?:marith\.)?(\w+)`(?!\])")
_ERROR = re.compile(r"(?<![\w`\[.])(\w+)(?![\w`\]])")
_WORD = re.compile(r"[A-Za-z_]\w*")

Links = Mapping[str, str]  # where a name is documented: a page and a heading


class _Source:
    """An annotation as in the source code, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature_of(function: Any) -> inspect.Signature:
    """Return a function's signature. LlamaIndex may have set its `__wrapped__` to True."""
    is_wrapped = callable(getattr(function, "__wrapped__", None))
    return inspect.signature(function, follow_wrapped=is_wrapped)


def signature(name: str, function: Any) -> str:
    """Return a call as in its definition, without `self`.

    A long call has one parameter a line.
    """
    made = _signature_of(function)
    parameters = [p for p in made.parameters.values() if p.name not in ("self", "_self", "cls")]
    written = [_written(parameter) for parameter in parameters]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        written.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = made.return_annotation
    end = "" if returned is made.empty else f" -> {inspect.formatannotation(_source(returned))}"
    line = f"{name}({', '.join(written)}){end}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in written) + f"){end}"


def _written(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if is_dataclass(default) and not isinstance(default, type) and default == type(default)():
        default = _Source(f"{type(default).__name__}()")
    return str(parameter.replace(annotation=_source(parameter.annotation), default=default))


def _source(annotation: Any) -> Any:
    return _Source(annotation) if isinstance(annotation, str) else annotation


def documented(value: Any, links: Links, inside: str = "") -> str:
    """Return a docstring with links at the names that are documented elsewhere.

    Names are not linked in their own section (`inside`), and parameters are never linked. Errors
    are always linked, and other names where they are quoted.
    """
    text = inspect.getdoc(value) or ""
    called = inspect.isfunction(value) or is_dataclass(value)
    own = {inside, *(_signature_of(value).parameters if called else ())}

    def quoted(match: re.Match[str]) -> str:
        to = links.get(match[1])
        return f"[`{match[1]}`]({to})" if to and match[1] not in own else match[0]

    def error(match: re.Match[str]) -> str:
        name = match[1]
        to = links.get(name)
        is_error = to is not None and "errors.md" in to
        return f"[{name}]({to})" if is_error and name != inside else name

    return _ERROR.sub(error, _QUOTED.sub(quoted, text))


def linked_type(text: str, links: Links) -> str:
    """Return a type as code, with links at the documented names."""
    pieces, at = [], 0
    for word in _WORD.finditer(text):
        if to := links.get(word[0]):
            pieces += [_code(text[at : word.start()]), f"[`{word[0]}`]({to})"]
            at = word.end()
    return "".join([*pieces, _code(text[at:])])


def _code(text: str) -> str:
    """Return a part of a table's cell as code, with outer spaces outside of the code."""
    inner = text.strip().replace("|", "\\|")
    if not inner:
        return text
    left, right = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{left}`{inner}`{right}"


def types_line(code: str, links: Links, inside: str = "") -> str:
    """Return the documented types of a signature, with links."""
    names = dict.fromkeys(word[0] for word in _WORD.finditer(code) if word[0][0].isupper())
    linked = [f"[`{name}`]({links[name]})" for name in names if name in links and name != inside]
    return "Types: " + ", ".join(linked) + "." if linked else ""


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def fenced(code: str) -> str:
    """Return a code block that the tests of the documents do not run."""
    return f"```py\n{code}\n```"
