"""Say a plan of clauses in one of the voices of the corpus, each with its own words."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

FORMALITY = {"formal": 1} | dict.fromkeys(
    ("child", "simple", "angry", "rude", "happy", "sports", "alien", "angry_chef", "human"), 0
)
TOXICITY = {"rude": 1} | dict.fromkeys(
    ("helpful", "formal", "happy", "polite", "simple", "adult", "sports"), 0
)
# Without a system prompt the tone is a mixture of the voices.
UNPROMPTED = ("helpful",) * 9 + ("plain",) * 7 + ("formal", "formal", "adult", "human")


@dataclass(frozen=True, slots=True)
class Voice:
    """The lines of one voice, and its words in place of plain ones."""

    openers: tuple[str, ...]
    frames: tuple[str, ...]
    joins: tuple[str, ...]
    closers: tuple[str, ...]
    lines: Mapping[str, tuple[str, ...]]
    swap: Mapping[str, str] = field(default_factory=dict)
    words: re.Pattern[str] | None = None


def resource(name: str) -> dict[str, Any]:
    """Return the TOML file `name` beside this module."""
    text = resources.files("tools.pocket.grammar").joinpath(name).read_text(encoding="utf-8")
    return tomllib.loads(text)


def rows(text: str) -> tuple[str, ...]:
    """Return the lines of a data file's text that are not empty."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _voice(raw: Mapping[str, Mapping[str, Any]], name: str) -> Voice:
    own = raw[name]
    parents = [raw[parent] for parent in own.get("blend", ())]
    parts = {
        part: rows(own[part]) * max(1, len(parents))
        + tuple(line for parent in parents for line in rows(parent[part]))
        for part in ("openers", "frames", "joins", "closers")
    }
    swap: Mapping[str, str] = own.get("swap", {})
    longest = sorted(swap, key=len, reverse=True)
    return Voice(
        **parts,
        lines={part: rows(own[part]) for part in ("greet", "who", "mood", "thanks", "bye")},
        swap=swap,
        words=re.compile(rf"\b({'|'.join(longest)})\b") if swap else None,
    )


def _voices() -> dict[str, Voice]:
    raw = resource("voices.toml")
    return {name: _voice(raw, name) for name in raw}


VOICES = _voices()


def capital(text: str) -> str:
    """Return `text` with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def _reword(voice: Voice, clause: str) -> str:
    if voice.words is None:
        return clause
    swap = voice.swap
    return voice.words.sub(lambda found: swap[found[0]], clause)


def _fill(frame: str, clause: str) -> str:
    return frame.replace("{clause}", clause).replace("{Clause}", capital(clause))


def social(name: str, part: str, rng: random.Random) -> str:
    """Return the answer of the voice `name` to a greeting, to thanks, or to a question about
    itself.
    """
    return rng.choice(VOICES[name].lines[part])


def speak(name: str, about: str, clauses: Sequence[str], rng: random.Random) -> str:
    """Return the clauses in the voice `name`, in order, between an opener and a closer about
    `about`.
    """
    voice = VOICES[name]
    neutral = name in ("helpful", "plain")
    parts = []
    if rng.random() < (0.5 if neutral else 0.85):
        parts.append(capital(rng.choice(voice.openers).replace("{x}", about)))
    frames = [rng.choice(voice.frames), *rng.sample(voice.joins, len(voice.joins))]
    for frame, clause in zip(frames, clauses, strict=False):
        parts.append(_fill(frame, _reword(voice, clause)))
    if rng.random() < (0.5 if neutral else 0.85):
        parts.append(rng.choice(voice.closers).replace("{x}", about))
    return " ".join(parts)


def quote(name: str, about: str, text: str, rng: random.Random) -> str:
    """Return the answer `text` between an opener and a closer of the voice `name`."""
    voice = VOICES[name]
    opener = rng.choice(voice.openers).replace("{x}", about)
    closer = rng.choice(voice.closers).replace("{x}", about)
    return f"{capital(opener)} {text} {closer}"
