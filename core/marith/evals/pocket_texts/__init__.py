"""Texts from pocket's grammar, for evaluations without a data set. tools/pocket writes them."""

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
# This file has the replies of assistants in pocket's corpus, one per line.
REPLIES = FOLDER / "replies.txt"


def file(kind: str) -> Path:
    """Return the file with the texts of a kind, one JSON record per line."""
    return FOLDER / f"{kind.replace(' ', '_')}.jsonl"


@cache
def records(kind: str) -> tuple[Mapping[str, Any], ...]:
    """Return all records of a kind. Each has a `text`."""
    lines = file(kind).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


@cache
def phrases_by_prompt() -> Mapping[str, frozenset[str]]:
    """Return, for each system prompt, the sentences that the grammar uses for no other prompt.

    In a sentence, `*` stands for its subject.
    """
    phrases = json.loads(MANNERS.read_text(encoding="utf-8"))
    return {prompt: frozenset(sentences) for prompt, sentences in phrases.items()}
