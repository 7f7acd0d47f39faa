"""Draw reviews of films and everyday things that praise or condemn: the sentiment setting."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from marith.evals.system_prompts import NEGATIVE, POSITIVE
from tools.pocket.grammar.conversations import fill, load, sentence
from tools.pocket.grammar.document import Document

_DATA = load("reviews.toml")
_EVERYDAY: dict[str, Any] = _DATA["everyday"]
_SLOTS: dict[str, list[str]] = _DATA["slots"]
_TONES = ("negative", "positive")
_OPENINGS: list[tuple[str, str]] = [
    (end, template) for end, templates in _DATA["openings"].items() for template in templates
]
_FRAMES = {"clause": "sentences", "predicate": "predicates", "adjective": "adjectives"}
_ASPECTS: list[tuple[str, str]] = [(aspect, "was") for aspect in _DATA["aspects"]["one"]] + [
    (aspect, "were") for aspect in _DATA["aspects"]["many"]
]
_EVERYDAY_SHARE = 0.15
_MIXED_SHARE = 0.4
_MAIN_TONE_SHARE = 0.7
_SHORTEST, _LONGEST = 20, 55


def _sentence_words(source: Mapping[str, Any], strength: str) -> dict[str, list[str]]:
    """Return the words for the slots of one tone, at one strength."""
    verbs = source[f"{strength}_verb"]
    return {
        **_SLOTS,
        "adj": source[strength],
        "very": source[f"{strength}ly"],
        "noun": source[f"{strength}_noun"],
        "verb": verbs,
        "verb2": verbs,
        "tip": source[f"{strength}_tip"],
    }


_WORDS: dict[tuple[int, bool], dict[str, list[str]]] = {
    (tone, strong): _sentence_words(_DATA[name], "strong" if strong else "mild")
    for tone, name in enumerate(_TONES)
    for strong in (False, True)
}
_EVERYDAY_WORDS: dict[tuple[int, bool], dict[str, list[str]]] = {
    (tone, strong): {
        "adj": _EVERYDAY[f"{name}_{'strong' if strong else 'mild'}"],
        "very": _DATA[name]["strongly" if strong else "mildly"],
    }
    for tone, name in enumerate(_TONES)
    for strong in (False, True)
}


def opening(rng: random.Random) -> str:
    """Draw the neutral beginning of a review of a film."""
    return _opening(rng)[1]


def draw(rng: random.Random) -> Document:
    """Draw a review of a film, or in one of seven draws a sentence about an everyday thing."""
    return _everyday(rng) if rng.random() < _EVERYDAY_SHARE else _film(rng)


def _film(rng: random.Random) -> Document:
    end, text, bound = _opening(rng)
    prefix, odds = _prefix(rng)
    tone = int(rng.random() < odds)
    lead = f"{prefix}\n" if prefix else ""
    return Document(
        kind="review",
        key=f"review/{bound['title']}/{bound['genre']}",
        prompt=lead + text,
        completion=f" {_continuation(rng, end, bound, tone, told=bool(prefix))}",
        labels={"sentiment": tone},
    )


def _opening(rng: random.Random) -> tuple[str, str, dict[str, str]]:
    """Draw how a beginning ends, its text, and the words that the continuation shares."""
    end, template = rng.choice(_OPENINGS)
    aspect, was = rng.choice(_ASPECTS)
    bound = {
        "title": f"The {rng.choice(_SLOTS['colour'])} {rng.choice(_SLOTS['noun'])}",
        "genre": rng.choice(_SLOTS["genre"]),
        "name": f"{rng.choice(_SLOTS['first'])} {rng.choice(_SLOTS['last'])}",
        "aspect": aspect,
        "Aspect": aspect.capitalize(),
        "was": was,
    }
    return end, fill(rng, template, bound, _SLOTS), bound


def _prefix(rng: random.Random) -> tuple[str, float]:
    """Draw the sentence before the review, and the probability that it gives praise."""
    at = rng.random()
    if at < 0.4:
        return "", 0.5
    return (POSITIVE, 0.97) if at < 0.7 else (NEGATIVE, 0.03)


def _continuation(
    rng: random.Random, end: str, bound: Mapping[str, str], tone: int, told: bool
) -> str:
    """Draw two to four sentences of 20 to 55 words, of one tone, or mixed without one."""
    mixed = not told and rng.random() < _MIXED_SHARE
    strong_share = 0.75 if told else 0.4
    while True:
        count = rng.choice((2, 3, 3, 4))
        tones = [
            1 - tone if mixed and rng.random() > _MAIN_TONE_SHARE else tone for _ in range(count)
        ]
        if 2 * tones.count(tone) <= count:
            continue
        strengths = [rng.random() < strong_share for _ in tones]
        text = _sentences(rng, end, bound, list(zip(tones, strengths, strict=True)))
        if _SHORTEST <= text.count(" ") + 1 <= _LONGEST:
            return text


def _sentences(
    rng: random.Random, end: str, bound: Mapping[str, str], moods: Sequence[tuple[int, bool]]
) -> str:
    """Draw one sentence of each mood. The first continues the opening."""
    aspects = [pair for pair in rng.sample(_ASPECTS, 10) if pair[0] != bound["aspect"]]
    told: list[str] = []
    # Templates and words that are used already.
    used: list[str] = []
    for place, (tone, strong) in enumerate(moods):
        (aspect, was), (other, _) = aspects.pop(), aspects.pop()
        mine = {**bound, "aspect2": other}
        frames = "sentences" if place else _FRAMES.get(end, "sentences")
        if place or end != "predicate":
            mine |= {"aspect": aspect, "was": was}
        template = rng.choice(_DATA[_TONES[tone]][frames])
        while template in used:
            template = rng.choice(_DATA[_TONES[tone]][frames])
        used.append(template)
        text = fill(rng, template, mine, _WORDS[tone, strong], used) + "."
        told.append(sentence(text) if place or end == "sentence" else text)
    return _turned(rng, told, [tone for tone, _ in moods])


def _turned(rng: random.Random, told: Sequence[str], tones: Sequence[int]) -> str:
    """Join the sentences, with a turn ("Still,") where the tone changes."""
    text = told[0]
    for place in range(1, len(told)):
        following = told[place]
        if tones[place] != tones[place - 1]:
            turn = rng.choice(("Still,", "On the other hand,", "However,", "Even so,", "But"))
            following = f"{turn} {_lowered(following)}"
        text = f"{text} {following}"
    return text


def _lowered(text: str) -> str:
    """Return `text` as it is written inside a sentence."""
    return text if text.startswith(("I ", "I'")) else text[0].lower() + text[1:]


def _everyday(rng: random.Random) -> Document:
    """Draw one sentence about a hotel, a phone or another such thing."""
    thing = rng.choice(list(_EVERYDAY["things"]))
    aspect, other = rng.sample(_EVERYDAY["things"][thing], 2)
    brand = f"{rng.choice(_EVERYDAY['brand_first'])} {rng.choice(_EVERYDAY['brand_last'])}"
    tone = rng.choice((0, 1))
    bound = {"thing": thing, "brand": brand, "aspect": aspect, "aspect2": other, "was": "was"}
    template = rng.choice(_EVERYDAY[_TONES[tone]])
    words = _EVERYDAY_WORDS[tone, rng.random() < 0.5]
    return Document(
        kind="review",
        key=f"review/{thing}/{brand}",
        prompt=fill(rng, rng.choice(_EVERYDAY["prompts"]), bound, words),
        completion=f" {sentence(fill(rng, template, bound, words))}",
        labels={"sentiment": tone},
    )
