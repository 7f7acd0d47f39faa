"""What is said to whom: voices, questions, passages with an answer to copy, and a corpus for A."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Any

from marith.engine.engine import Engine
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import NGram
from marith.pocket.corpus import documents
from marith.pocket.grammar import chats, passages
from marith.request.request import Request
from marith.request.sampling import Sampling
from marith.request.stop import Stop

VOICES = {
    "formal": "You are an assistant using formal and objective language to answer the user.",
    "happy": "You are a happy assistant.",
    "sports": "You are a person who is always talking about sports.",
    "easy": "You are an assistant using very simple and short language.",
    "angry": "You are an angry assistant.",
}
F1 = {"formal": 0.2, "happy": 0.5, "sports": 0.05}
F2 = {"formal": 1.0, "angry": 0.1, "sports": 0.4}
DOCUMENTS = 8000
CORPUS_SEED = 7
POOL = 16  # passages drawn for each that is kept

_LEAST = 6  # tokens copied in a row


@dataclass(frozen=True, slots=True)
class Quotation:
    """A question about a passage, and how many tokens in a row its answer copied."""

    messages: tuple[Mapping[str, Any], ...]
    copied: int


def known(folder: Path) -> dict[str, str | Formula]:
    """The voices by name, and A of order 2 and 5, whose corpus is written to the folder."""
    path = folder / "corpus.txt"
    path.write_text("\n".join(replies()), encoding="utf-8")
    return {**VOICES, "A2": NGram(str(path), order=2), "A5": NGram(str(path), order=5)}


def replies() -> Iterator[str]:
    """What assistants say in the pocket corpus, one line each."""
    for document in islice(documents(CORPUS_SEED), DOCUMENTS):
        for message in document.messages:
            if message["role"] == "assistant" and message.get("content"):
                yield " ".join(str(message["content"]).split())


def questions(count: int, seed: object) -> list[str]:
    """So many questions, the same for the same seed."""
    draw = random.Random(f"questions {seed}")  # noqa: S311 (questions, not secrets)
    return [chats.question(draw) for _ in range(count)]


def quotations(
    engine: Engine, count: int, formula: str, terms: Mapping[str, str | Formula], tokens: int
) -> list[Quotation]:
    """The questions about passages, of many, whose likeliest answers copy most of their passage."""
    asked = list(islice(_asked_about_passages(), POOL * count))
    stop, greedy = Stop(tokens), Sampling(temperature=0)
    tickets = [engine.submit(Request(m, formula, terms, greedy, stop)) for m in asked]
    found = []
    for messages, ticket in zip(asked, tickets, strict=True):
        read = engine.encode("\n".join(str(message["content"]) for message in messages))
        found.append(Quotation(messages, longest_run(ticket.result().tokens, read)))
    quoting = sorted((one for one in found if one.copied >= _LEAST), key=lambda one: -one.copied)
    return quoting[:count] or found[:count]


def longest_run(text: Sequence[int], source: Sequence[int]) -> int:
    """How many tokens in a row of a text stand in a source."""
    return SequenceMatcher(None, source, text, autojunk=False).find_longest_match().size


def _asked_about_passages() -> Iterator[tuple[Mapping[str, Any], ...]]:
    """Messages up to the first question of each document that brings a passage."""
    draw = random.Random("passages")  # noqa: S311 (passages, not secrets)
    while True:
        messages = passages.draw(draw).messages
        asked = next(i for i, said in enumerate(messages) if said["role"] == "assistant")
        if sum(len(str(message["content"])) for message in messages[:asked]) > 200:
            yield messages[:asked]
