"""The sections of a report about speed, by name."""

from __future__ import annotations

from collections.abc import Sequence

from marith.errors import RequestError


def split_sections(texts: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """`["terms,floor", "concurrency"]` → the names of three sections; all names for no text."""
    return tuple(name.strip() for text in texts for name in text.split(",")) or known


def check_sections(sections: Sequence[str], known: Sequence[str]) -> None:
    """Raise RequestError for a section that does not exist."""
    for section in sections:
        if section not in known:
            raise RequestError(f"a section is one of {', '.join(known)}, not {section!r}")
