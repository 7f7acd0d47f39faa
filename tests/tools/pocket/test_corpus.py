"""The pocket corpus: deterministic, and parted from what it is tested by."""

from __future__ import annotations

import random
from importlib.resources import files
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from tools.pocket import corpus
from tools.pocket.grammar import (
    chats,
    conversations,
    copies,
    passages,
    reviews,
    toolbox,
    tools,
)
from tools.pocket.grammar.document import Document


def drawn(count: int, held_out: bool = False) -> list[Document]:
    return list(islice(corpus.documents(0, held_out), count))


@pytest.mark.parametrize("part", [chats, conversations, reviews, passages, tools, copies])
def test_equal_seeds_draw_equal_documents(part: ModuleType) -> None:
    first, second = random.Random(7), random.Random(7)
    for _ in range(50):
        assert part.draw(first) == part.draw(second)


def test_no_filling_is_on_both_sides_of_the_split() -> None:
    training = {(d.kind, d.key) for d in drawn(4000)}
    held_out = {(d.kind, d.key) for d in drawn(400, held_out=True)}
    assert not training & held_out


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
