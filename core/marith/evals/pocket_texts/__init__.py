"""Texts of pocket's grammar, for evaluations without data: written by tools/pocket, read here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
QUESTIONS = "questions"
HOSTILE_MESSAGES = "hostile messages"
REVIEWS = "film reviews"
REVIEWS_OF = {tone: f"{tone} film reviews" for tone in ("negative", "positive")}
SPEED_QUESTIONS = "questions of speed"
MANNERS = FOLDER / "manners.json"
REPLIES = FOLDER / "replies.txt"  # one a line, what assistants say in the corpus


def file(kind: str) -> Path:
    """Return the file with the texts of a kind, one JSON record a line."""
    return FOLDER / f"{kind.replace(' ', '_')}.jsonl"


@cache
def records(kind: str) -> tuple[Mapping[str, Any], ...]:
    """All records of a kind: a `text` each, or the `messages` of a chat."""
    lines = file(kind).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


@cache
def phrases_by_prompt() -> Mapping[str, frozenset[str]]:
    """By system prompt, the sentences that the grammar gives to it alone, `*` for their subject."""
    phrases = json.loads(MANNERS.read_text(encoding="utf-8"))
    return {prompt: frozenset(sentences) for prompt, sentences in phrases.items()}
