"""System prompts, questions, and a corpus for A."""

from __future__ import annotations

from marith.evals import pocket_texts
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import NGram

SYSTEM_PROMPTS = {
    "formal": "You are an assistant using formal and objective language to answer the user.",
    "happy": "You are a happy assistant.",
    "sports": "You are a person who is always talking about sports.",
    "easy": "You are an assistant using very simple and short language.",
    "angry": "You are an angry assistant.",
}
F1 = {"formal": 0.2, "happy": 0.5, "sports": 0.05}
F2 = {"formal": 1.0, "angry": 0.1, "sports": 0.4}
BLOCK = 50  # questions that are a round's own
BLOCK_OF_CALIBRATION = -1  # the last


def terms() -> dict[str, str | Formula]:
    """The system prompts by name, and A of order 2 and 5 over the answers in pocket's corpus."""
    corpus = str(pocket_texts.REPLIES)
    return {**SYSTEM_PROMPTS, "A2": NGram(corpus, order=2), "A5": NGram(corpus, order=5)}


def questions(count: int, block: int) -> list[str]:
    """So many questions from a block on: a round has its own, and calibration."""
    records = pocket_texts.records(pocket_texts.SPEED_QUESTIONS)
    return [str(records[(BLOCK * block + i) % len(records)]["text"]) for i in range(count)]
