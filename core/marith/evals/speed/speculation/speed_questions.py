"""System prompts, questions, passages with an answer to copy, and a corpus for A."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from marith.engine.engine import Engine
from marith.evals import pocket_texts
from marith.formula.text.term_data import Terms
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import NGram
from marith.request.request import Request
from marith.request.sampling import Sampling
from marith.request.stop import Stop

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
BLOCK_OF_LARGE, BLOCK_OF_CALIBRATION = -2, -1  # the last two
POOL = 16  # passages drawn for each that is kept

_LEAST = 6  # tokens copied in a row


@dataclass(frozen=True, slots=True)
class Quotation:
    """A question about a passage, and how many tokens in a row its answer copied."""

    messages: tuple[Mapping[str, Any], ...]
    copied: int


def terms() -> dict[str, str | Formula]:
    """The system prompts by name, and A of order 2 and 5 over the answers in pocket's corpus."""
    corpus = str(pocket_texts.REPLIES)
    return {**SYSTEM_PROMPTS, "A2": NGram(corpus, order=2), "A5": NGram(corpus, order=5)}


def questions(count: int, block: int) -> list[str]:
    """So many questions from a block on: a round has its own, and two have names."""
    records = pocket_texts.records(pocket_texts.SPEED_QUESTIONS)
    return [str(records[(BLOCK * block + i) % len(records)]["text"]) for i in range(count)]


def quotations(
    engine: Engine, count: int, formula: str, terms: Terms, tokens: int
) -> list[Quotation]:
    """The questions about passages, of many, whose likeliest answers copy most of their passage."""
    passages = pocket_texts.records(pocket_texts.PASSAGES)[: POOL * count]
    prompts = [tuple(passage["messages"]) for passage in passages]
    stop, greedy = Stop(tokens), Sampling(temperature=0)
    tickets = [engine.submit(Request(m, formula, terms, greedy, stop)) for m in prompts]
    candidates = []
    for messages, ticket in zip(prompts, tickets, strict=True):
        read = engine.encode("\n".join(str(message["content"]) for message in messages))
        candidates.append(Quotation(messages, longest_run(ticket.result().tokens, read)))
    quoting = sorted(
        (quotation for quotation in candidates if quotation.copied >= _LEAST),
        key=lambda quotation: -quotation.copied,
    )
    return quoting[:count] or candidates[:count]


def longest_run(text: Sequence[int], source: Sequence[int]) -> int:
    """How many tokens in a row of a text stand in a source."""
    return SequenceMatcher(None, source, text, autojunk=False).find_longest_match().size
