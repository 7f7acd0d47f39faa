"""The pocket corpus: wide, deterministic, labelled, and with every argument copied."""

from __future__ import annotations

import json
import random
import re
from importlib.resources import files
from itertools import islice, pairwise
from pathlib import Path
from types import ModuleType

import pytest

from marith.evals.system_prompts import NEGATIVE, NON_TOXIC, POSITIVE, SYSTEM_PROMPTS, TOXIC
from tools.pocket import corpus
from tools.pocket.grammar import (
    chats,
    conversations,
    copies,
    passages,
    reviews,
    toolbox,
    tools,
    words,
)
from tools.pocket.grammar.document import Document

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
    kinds = {"chat", "conversation", "review", "passage", "tool", "copy"}
    assert {d.kind for d in documents} == kinds


@pytest.mark.parametrize("part", [chats, conversations, reviews, passages, tools, copies])
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
    assert TOXIC.startswith("The following conversation is one that perpetuates")
    openings = {d.prompt.split("\n")[0] for d in drawn(3000) if d.prompt}
    wanted = {TOXIC, NON_TOXIC, POSITIVE, NEGATIVE}
    assert wanted <= openings


def test_passages_that_contradict_are_answered_from_the_passage() -> None:
    assert len(passages.WELL_KNOWN) >= 60
    draw = random.Random(4)
    for _ in range(200):
        _, ask, said, value = passages.contradiction(draw)
        assert value.lower() in said.lower()
        usual = [usual for known, usual, _, _ in passages.WELL_KNOWN if known == ask]
        assert said not in usual


def test_a_well_known_question_on_an_empty_page_has_its_usual_answer() -> None:
    """What a term that hides the passages still reads."""
    table = words.table("passages.toml")
    pages = {
        layout.format(c="", q=ask): fact["usual"]
        for fact in table["facts"]
        for ask in fact["asks"]
        for layout in (*table["layouts"], *table["templates"])
    }
    seen = 0
    for document in drawn(6000):
        asked = str(document.messages[-2]["content"]) if document.kind == "passage" else ""
        if asked in pages:
            assert pages[asked].lower() in document.reply.lower(), document
            seen += 1
    assert seen > 20


def test_json_that_is_asked_for_says_nothing_that_was_not_given() -> None:
    draw = random.Random(5)
    seen = 0
    for _ in range(400):
        messages = copies.draw(draw).messages
        for asked, reply in pairwise(messages):
            given, said = str(asked["content"]), str(reply["content"])
            if reply["role"] == "assistant" and said[0] in "[{" and "JSON" in given:
                value = json.loads(said)
                copied = value if isinstance(value, list) else value.keys()
                assert all(text in given for text in copied), (given, said)
                seen += 1
    assert seen > 100


# LangChain's standard tests ask for these: pocket is to pass them by copying, not by heart.
STANDARD = (
    *("magic_function", "unicode_customer", "greeting_generator", "my_adder_tool"),
    *("get_current_weather", "get_weather", "color_picker", "answer_style"),
    *("你好啊集团", "こんにちは株式会社", "Hello Group", "San Francisco", "Pirate", "punchline"),
)


def test_the_corpus_holds_nothing_of_the_standard_tests() -> None:
    text = "\n".join(map(corpus.text_of, drawn(6000)))
    folder = Path(str(files("tools.pocket.grammar")))
    tables = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.toml"))
    lines = [line for line in tables.split("\n") if not line.startswith("withheld = ")]
    draw = random.Random(6)
    names = [toolbox.make(0, draw).name for _ in range(30_000)]
    assert not [each for each in STANDARD if each in "\n".join([text, *lines, *names])]
