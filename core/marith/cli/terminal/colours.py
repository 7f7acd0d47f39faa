"""Colours, for terminals only: elsewhere, and with NO_COLOR, text stays as it is."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

import typer

_PARTS = re.compile(
    r"""(?P<branch>[│├└─]+)|(?P<text>"[^"\n]*")|(?P<number>(?<![\w.])-?\d+(\.\d+)?(?!\w))
    |^(?P<label>total\ weight:|normalised:)|^(?P<warning>warning:)""",
    re.VERBOSE | re.MULTILINE,
)
_STYLES: dict[str, dict[str, Any]] = {
    "branch": {"dim": True},
    "text": {"fg": "green"},
    "number": {"fg": "cyan"},
    "label": {"bold": True},
    "warning": {"fg": "yellow", "bold": True},
}


def has_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours, and the user wants them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and stream.isatty()


def styled(text: str, stream: TextIO | None = None, **style: Any) -> str:
    """A text in a style of typer's for a stream, by default standard output."""
    return typer.style(text, **style) if has_colours(stream or sys.stdout) else text


def formula_colours(explanation: str) -> str:
    """An explanation of a formula with its branches, texts, numbers and warnings in colours."""
    if not has_colours(sys.stdout):
        return explanation
    return _PARTS.sub(lambda m: typer.style(m[0], **_STYLES[str(m.lastgroup)]), explanation)
