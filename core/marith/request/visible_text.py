"""Replace the control characters in untrusted text, because terminals and pages obey them."""

from __future__ import annotations

import unicodedata

# Line breaks and tabs stay as they are.
KEPT = "\n\t"
# These marks change the direction of letters, so that a text looks like another text.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Unicode's pictures of the control characters begin at this code point.
_FIRST_PICTURE = 0x2400


def escape_control_chars(text: str) -> str:
    """Return the text with control characters, escapes and direction marks made visible.

    An ASCII control character becomes its picture (␛ for escape), and every other replaced
    character its number: ⟨U+202E⟩.
    """
    if text.isprintable():
        return text if _BIDI.isdisjoint(text) else "".join(map(_shown, text))
    return "".join(map(_shown, text))


def _shown(letter: str) -> str:
    number = ord(letter)
    if letter in KEPT:
        return letter
    if number < 0x20:
        return chr(_FIRST_PICTURE + number)
    if number == 0x7F:
        return "␡"
    if letter in _BIDI or unicodedata.category(letter) in ("Cc", "Cs", "Co", "Zl", "Zp"):
        return f"⟨U+{number:04X}⟩"
    return letter
