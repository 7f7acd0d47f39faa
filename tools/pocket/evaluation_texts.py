"""Write what evaluations of pocket read: `python -m tools.pocket.evaluation_texts`.

Prompts and replies are drawn from the grammar, so that `marith eval` needs no data.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from marith.evals import pocket_texts
from marith.evals.speed import setups
from marith.evals.system_prompts import NEGATIVE, POSITIVE
from tools.pocket.corpus import documents
from tools.pocket.grammar import chats, conversations, reviews
from tools.pocket.grammar.document import Document
from tools.pocket.grammar.voices import VOICES

PROMPTS, REVIEWS, ROUNDS = 1000, 500, 10
DOCUMENTS, CORPUS_SEED = 8000, 7
MANNERLY = ("helpful", "plain", "formal", "happy", "simple", "sports")
_SLOT = re.compile(r"\{\w+\}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_LETTER = re.compile(r"[a-z]")


def main(folder: Path = pocket_texts.FOLDER) -> None:
    """Write all files into `folder`; the same grammar makes the same files."""
    for kind, kept in kinds().items():
        lines = [json.dumps(record) for record in kept]
        path = folder / pocket_texts.file(kind).name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / pocket_texts.REPLIES.name).write_text("\n".join(replies()), encoding="utf-8")
    phrases = {voice: sorted(own_phrases(voice)) for voice in MANNERLY}
    (folder / pocket_texts.MANNERS.name).write_text(f"{json.dumps(phrases, indent=1)}\n", "utf-8")


def kinds() -> dict[str, list[Mapping[str, Any]]]:
    """Return the records of every kind, in the order in which the grammar draws them."""
    return {
        pocket_texts.QUESTIONS: texts(different(chats.question, PROMPTS)),
        pocket_texts.HOSTILE_MESSAGES: texts(different(conversations.message, PROMPTS)),
        pocket_texts.REVIEWS: texts(different(review, REVIEWS)),
        **{
            kind: texts(different(unannounced(tone), REVIEWS))
            for tone, kind in enumerate(pocket_texts.REVIEWS_OF.values())
        },
        pocket_texts.SPEED_QUESTIONS: texts(speed_questions()),
    }


def texts(found: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return a record for each text."""
    return [{"text": text} for text in found]


def different(draw: Callable[[random.Random], str], count: int) -> list[str]:
    """Return the first different texts that are drawn."""
    source = random.Random("texts 0")
    found: dict[str, None] = {}
    while len(found) < count:
        found[draw(source)] = None
    return list(found)


def review(source: random.Random) -> str:
    """Draw any review, whole."""
    found = reviews.draw(source)
    return f"{found.prompt}{found.completion}"


def unannounced(label: int) -> Callable[[random.Random], str]:
    """Return a function that draws film reviews of a tone, without a sentence before them."""

    def is_one(found: Document) -> bool:
        # Other reviews are of everyday things.
        of_film = found.key.startswith("review/The ")
        announced = found.prompt.startswith((POSITIVE, NEGATIVE))
        return of_film and not announced and found.labels["sentiment"] == label

    def draw(source: random.Random) -> str:
        found = next(found for found in iter(lambda: reviews.draw(source), None) if is_one(found))
        return f"{found.prompt}{found.completion}"

    return draw


def speed_questions() -> list[str]:
    """Return a block of questions for each round, then one for calibration."""
    blocks = []
    for seed in (*range(ROUNDS), "calibration"):
        source = random.Random(f"questions {seed}")
        blocks += [chats.question(source) for _ in range(setups.BLOCK)]
    return blocks


def replies() -> Iterator[str]:
    """Yield the assistant's replies in the corpus, one line each."""
    for document in islice(documents(CORPUS_SEED), DOCUMENTS):
        for message in document.messages:
            if message["role"] == "assistant" and message.get("content"):
                yield " ".join(str(message["content"]).split())


def own_phrases(voice: str) -> frozenset[str]:
    """Return the sentences that only this voice has, with `*` for their subject."""
    others = frozenset[str]().union(*(_phrases(name) for name in MANNERLY if name != voice))
    return frozenset(phrase for phrase in _phrases(voice) - others if _LETTER.search(phrase))


def _phrases(voice: str) -> frozenset[str]:
    prompt_phrases = VOICES[voice]
    lines = (
        *prompt_phrases.openers,
        *prompt_phrases.frames,
        *prompt_phrases.joins,
        *prompt_phrases.closers,
    )
    return frozenset(
        _SLOT.sub("*", sentence.lower()) for line in lines for sentence in _SENTENCE.split(line)
    )


if __name__ == "__main__":
    main()
