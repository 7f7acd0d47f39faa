"""What of a formula's text is shown to whoever may not read the texts of its terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from marith.formula.tree.bounds import QUOTED

_QUOTATION = re.compile(  # no apostrophe of a word, before which there are three letters
    rf"(?<![^\W_]{{3}})(?:{QUOTED.pattern})", re.DOTALL
)


def unquoted(text: str) -> str:
    """A formula's text, or a sentence about it, with "…" in place of each text quoted in it."""
    return _QUOTATION.sub('"…"', text)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The same with a name in place of each text that has one in `names`."""
    for whole in sorted(names, key=len, reverse=True):  # a guide is within its classifier
        text = text.replace(whole, names[whole])
    return unquoted(text)


def distinct(texts: Iterable[str]) -> Iterator[str]:
    """The texts; one that has come before has its number after it: `M`, `M (2)`."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts[text] += 1
        yield text if counts[text] == 1 else f"{text} ({counts[text]})"
