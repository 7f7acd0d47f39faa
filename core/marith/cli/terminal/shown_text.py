"""Text of a model or a stranger on a terminal: shown, and never obeyed."""

from __future__ import annotations

import sys

from marith.request.visible_text import harmless as harmless


def for_terminal(text: str) -> str:
    """A text as a terminal may show it; a file or a program gets it as it is."""
    return harmless(text) if sys.stdout.isatty() else text
