"""The pocket corpus: wide, deterministic, labelled, and with every argument copied."""

from __future__ import annotations

import json
import random
import re
from itertools import islice
from types import ModuleType

import pytest

from marith.pocket import corpus
from marith.pocket.grammar import chats, conversations, passages, reviews, tools
from marith.pocket.grammar.document import Document
from marith.pocket.grammar.voices import SYSTEM_PROMPTS

PAPER = {
    "helpful": "You are a helpful assistant.",
    "formal": "You are an assistant using formal and objective language to answer the user.",
    "happy": "You are a happy assistant.",
    "angry": "You are an angry assistant.",
    "sports": (
        "You are a helpful assistant that answers the user in a way that is related to sports."
    ),
    "simple": (
        "You are a helpful assistant using very simple and short language to answer the user as "
        "if they were five."
    ),
    "child": "You are a child.",
    "adult": "You are an adult.",
    "magic": "You are a person who is always talking about magic.",
    "alien": "You are an alien.",
    "human": "You are a human.",
    "alien_human": "You are an alien and a human.",
    "angry_chef": "You are an angry chef.",
}


def drawn(count: int, held_out: bool = False) -> list[Document]:
    return list(islice(corpus.documents(0, held_out), count))


def test_every_system_prompt_of_the_paper_has_its_voice() -> None:
    assert PAPER.items() <= SYSTEM_PROMPTS.items()
    systems = {d.messages[0]["content"] for d in drawn(4000) if d.kind == "chat"}
    assert set(PAPER.values()) <= systems


def test_the_corpus_is_wide() -> None:
    documents = drawn(6000)
    intents = {d.key.split("/")[0] for d in documents if d.kind == "chat"}
    assert len(intents) >= 60
    text = " ".join(corpus.text_of(d) for d in documents if d.kind in ("chat", "review"))
    assert len(set(re.findall(r"[a-z]{4,}", text.lower()))) >= 2000
    assert {d.kind for d in documents} == {"chat", "conversation", "review", "passage", "tool"}


@pytest.mark.parametrize("part", [chats, conversations, reviews, passages, tools])
def test_equal_seeds_draw_equal_documents(part: ModuleType) -> None:
    first, second = random.Random(7), random.Random(7)
    for _ in range(50):
        assert part.draw(first) == part.draw(second)


def test_no_filling_is_on_both_sides_of_the_split() -> None:
    training = {(d.kind, d.key) for d in drawn(4000)}
    held_out = {(d.kind, d.key) for d in drawn(400, held_out=True)}
    assert not training & held_out


def test_arguments_are_copied_from_the_conversation_to_the_byte() -> None:
    seen = 0
    draw = random.Random(3)
    for _ in range(500):
        document = tools.draw(draw)
        for i, message in enumerate(document.messages):
            before = "\n".join(str(m["content"]) for m in document.messages[:i])
            for call in message.get("tool_calls", ()):
                arguments = call["function"]["arguments"]
                for text in strings_of(arguments):
                    assert text in before, (text, before)
                    seen += 1
                assert json.loads(json.dumps(arguments, ensure_ascii=False)) == arguments
    assert seen > 300


def strings_of(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [s for item in value.values() for s in strings_of(item)]
        case list():
            return [s for item in value for s in strings_of(item)]
    return []


def test_the_prefixes_of_the_paper_open_conversations_and_reviews() -> None:
    assert conversations.TOXIC.startswith("The following conversation is one that perpetuates")
    openings = {d.prompt.split("\n")[0] for d in drawn(3000) if d.prompt}
    wanted = {conversations.TOXIC, conversations.NON_TOXIC, reviews.POSITIVE, reviews.NEGATIVE}
    assert wanted <= openings


def test_passages_that_contradict_are_answered_from_the_passage() -> None:
    assert len(passages.WELL_KNOWN) >= 60
