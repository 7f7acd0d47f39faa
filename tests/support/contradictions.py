"""Questions of well-known things, and passages that say of them what training never answered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tools.pocket.grammar import words
from tools.pocket.grammar.document import Document

TRIES = 4000
PROPER = ("city", "country", "planet", "full_name", "weekday", "month")


@dataclass(frozen=True)
class Contradiction:
    """A question, what is usually answered, and a passage that says something else, in two ways."""

    question: str
    passage: str
    usual: str
    stated: str
    again: str

    def follows(self, answer: str) -> bool:
        return _says(answer, self.stated)

    def remembers(self, answer: str) -> bool:
        return _says(answer, self.usual) and not self.follows(answer)


def _says(answer: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", answer, re.IGNORECASE) is not None


def _unseen_value(fact: dict[str, Any], rng: Random, known: Collection[str]) -> str | None:
    """A value against what is usual, other than those known, that is held out of training.

    Training never asked of this fact where a passage gave it this value, nor answered with it;
    that a passage gave it in passing is not excluded.
    """
    for _ in range(TRIES):
        value = words.draw(fact["value"], rng)
        value = words.capital(value) if fact["value"] in PROPER else value
        fresh = Document("passage", f"{fact['name']}/{value}").held_out
        if fresh and value.lower() != fact["usual"].lower() and value not in known:
            return value
    return None  # all twelve months may have been stated


def contradictions(
    seed: int = 1, before: Collection[Contradiction] = ()
) -> Iterator[Contradiction]:
    """One of each fact that has a value left to tell, none of them as it was `before`."""
    rng = Random(seed)
    for fact in words.table("passages.toml")["facts"]:
        earlier = [case for case in before if case.question in fact["asks"]]
        value = _unseen_value(fact, rng, {case.stated for case in earlier})
        if value is not None:
            state = rng.choice(fact["states"])
            other = next(each for each in fact["states"] if each != state)
            asked = {case.question for case in earlier}
            asks = [ask for ask in fact["asks"] if ask not in asked] or fact["asks"]
            passage, again = (words.capital(each.format(v=value)) for each in (state, other))
            yield Contradiction(rng.choice(asks), passage, fact["usual"], value, again)


def editions() -> list[list[Contradiction]]:
    """Two passages of each fact, where it has two values left, never both in one list."""
    first = list(contradictions())
    return [first, list(contradictions(2, first))]
