"""Questions about common facts, and passages that contradict what pocket has learned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tools.pocket.grammar import words
from tools.pocket.grammar.document import Document

TRIES = 4000
PROPER = ("city", "country", "planet", "full_name", "weekday", "month")


@dataclass(frozen=True)
class Contradiction:
    """A question, its usual answer, and a passage that says something else."""

    question: str
    passage: str
    usual: str
    stated: str

    def follows(self, answer: str) -> bool:
        return _says(answer, self.stated)

    def remembers(self, answer: str) -> bool:
        return _says(answer, self.usual) and not self.follows(answer)


def _says(answer: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", answer, re.IGNORECASE) is not None


def _unseen_value(fact: dict[str, Any], rng: Random) -> str | None:
    """Return a value other than the usual one that training held out.

    In training, no question about this fact had a passage with this value, and no answer had it. A
    passage may have mentioned it beside another question.
    """
    for _ in range(TRIES):
        value = words.draw(fact["value"], rng)
        value = words.capital(value) if fact["value"] in PROPER else value
        fresh = Document("passage", f"{fact['name']}/{value}").held_out
        if fresh and value.lower() != fact["usual"].lower():
            return value
    return None  # all twelve months may have been stated


def contradictions() -> Iterator[Contradiction]:
    """Yield a contradiction for each fact that has an unseen value."""
    rng = Random(1)
    for fact in words.table("passages.toml")["facts"]:
        value = _unseen_value(fact, rng)
        if value is not None:
            passage = words.capital(rng.choice(fact["states"]).format(v=value))
            yield Contradiction(rng.choice(fact["asks"]), passage, fact["usual"], value)
