"""Draw talks of two persons, with replies that are civil or toxic: the toxicity setting."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from marith.evals.system_prompts import NON_TOXIC, TOXIC
from tools.pocket.grammar.document import Document

_PATIENCE = 3  # draws before a word may be repeated
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aei]|o(?!ne)|u(?!s[aeu]|ni[qfvt])|hour|honest)")
_START = re.compile(r"(?:^|[.?!] )([a-z])")


def load(name: str) -> dict[str, Any]:
    """Return the data file `name` beside this module."""
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))


def fill(
    rng: random.Random,
    template: str,
    bound: Mapping[str, str],
    words: Mapping[str, Sequence[str]],
    told: list[str] | None = None,
) -> str:
    """Fill each slot of `template` with its value, or with a random word, seldom one of `told`.

    The words that are drawn join `told`, so that the next sentence of the same text avoids them.
    """
    used = [] if told is None else told

    def word(match: re.Match[str]) -> str:
        slot = match[1]
        if slot in bound:
            return bound[slot]
        choices = words[slot]
        drawn = choices[int(rng.random() * len(choices))]
        for _ in range(_PATIENCE):
            if drawn not in used:
                break
            drawn = choices[int(rng.random() * len(choices))]
        used.append(drawn)
        return drawn

    text = template
    # A word may itself have slots.
    while "{" in text:
        text = _SLOT.sub(word, text)
    return _ARTICLE.sub(r"\1n ", text)


def sentence(text: str) -> str:
    """Return `text` with a capital at the start of each sentence."""
    return _START.sub(lambda match: match[0][:-1] + match[1].upper(), text)


_DATA = load("conversations.toml")
_TOPICS: list[tuple[str, dict[str, list[str]]]] = list(_DATA["topics"].items())
_SLOTS: dict[str, list[str]] = _DATA["slots"]
_CLAUSES: list[list[str]] = [_DATA["civil_clauses"], _DATA["toxic_clauses"]]
_FREES: list[list[str]] = [_DATA["civil_frees"], _DATA["toxic_frees"]]
_HOSTILE_SHARE = 0.5
_FREE_SHARE = 0.22
_OPENED_SHARE = 0.7
_SHORTEST, _LONGEST = 8, 28
_THINKING = ("think", "believe", "suppose", "guess", "that")


def message(rng: random.Random) -> str:
    """Draw what Person 1 says, mostly something hostile."""
    _, bound = _topic(rng)
    return _message(rng, bound, hostile=rng.random() < 0.85)


def draw(rng: random.Random) -> Document:
    """Draw a message with its reply, in three of five draws after a sentence that sets the tone."""
    topic, bound = _topic(rng)
    hostile = rng.random() < _HOSTILE_SHARE
    said = _message(rng, bound, hostile)
    prefix, odds = _prefix(rng, hostile)
    toxic = int(rng.random() < odds)
    lead = f"{prefix}\n" if prefix else ""
    return Document(
        kind="conversation",
        key=f"conversation/{topic}/{said}",
        prompt=f"{lead}Person 1: {said}\nPerson 2:",
        completion=f" {_reply(rng, bound, toxic)}",
        labels={"toxicity": toxic},
    )


def _topic(rng: random.Random) -> tuple[str, dict[str, str]]:
    """Draw the name of a topic, and words about it that the message and the reply share."""
    name, words = rng.choice(_TOPICS)
    bound = {slot: rng.choice(choices) for slot, choices in words.items()}
    return name, bound | {"day": rng.choice(_SLOTS["day"])}


def _message(rng: random.Random, bound: Mapping[str, str], hostile: bool) -> str:
    template = rng.choice(_DATA["hostile" if hostile else "neutral"])
    return sentence(fill(rng, template, bound, _SLOTS))


def _prefix(rng: random.Random, hostile: bool) -> tuple[str, float]:
    """Draw the sentence before the talk, and the probability that it gives a toxic reply."""
    at = rng.random()
    if at < 0.4:
        return "", 0.55 if hostile else 0.2
    return (TOXIC, 0.92) if at < 0.7 else (NON_TOXIC, 0.03)


def _reply(rng: random.Random, bound: Mapping[str, str], toxic: int) -> str:
    """Draw Person 2's answer of 8 to 28 words. Both tones share their openings."""
    while True:
        if rng.random() < _FREE_SHARE:
            template = rng.choice(_FREES[toxic])
        else:
            template = rng.choice(_CLAUSES[toxic]) + "."
            opening = rng.choice(_DATA["openings"])
            if rng.random() < _OPENED_SHARE and not _clash(opening, template):
                template = f"{opening} {template}"
        text = sentence(fill(rng, template, bound, _SLOTS))
        if _SHORTEST <= text.count(" ") + 1 <= _LONGEST:
            return text


def _clash(opening: str, template: str) -> bool:
    """Return True if both name the same part of the topic, or both say "I" in one sentence."""
    if template.startswith("I ") and opening.endswith(_THINKING):
        return True
    found = _SLOT.search(opening)
    return found is not None and found[0] in template
