"""With `faithful` an answer keeps to a passage that contradicts what the model has learnt."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from support.plain_transformers import PLAIN

from marith import Engine, Options, Prompted

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = DOCS / "examples" / "choose_faithful.py"
PAGE = (DOCS / "how-to" / "llamaindex.md").read_text(encoding="utf-8")
TEMPLATE = "Context:\n{passage}\n\nQuestion: {question}"
RETRIEVED = r"(?s)Context:\n(?P<context>.*?)\n\n"
# A passage, a question, what the passage answers, and what is usually said.
CASES = [
    ("Umeå is the capital of Japan.", "Name the capital of Japan.", "Umeå", "Tokyo"),
    ("Grass is pink.", "What color is grass?", "pink", "green"),
    ("A week has nine days.", "How many days are in a week?", "nine", "seven"),
    ("Water freezes at 30 degrees.", "When does water freeze?", "30", "0"),
    ("The sun goes around the Earth.", "What goes around what?", "The sun", "The Earth"),
]


def prompt(passage: str, question: str) -> str:
    return TEMPLATE.format(passage=passage, question=question)


def options(engine: Engine, terms: dict[str, str], faithful: float) -> Options:
    base = {"M": PLAIN["M"]} if "M" in terms else {}
    return Options(
        engine=engine, terms=base, temperature=0, max_tokens=24, faithful=faithful,
        faithful_to=RETRIEVED,
    )  # fmt: skip


def test_the_odds_of_the_passage_over_memory_rise_with_faithful(
    engine: Engine, terms: dict[str, str], timed: Any
) -> None:
    """By the recipe that `faithful` is made of, without its cut, which may leave no odds."""
    plain = {"template": "plain"} if "M" in terms else {}
    read = {"M": Prompted(**plain), "without": Prompted(hide=RETRIEVED, **plain)}
    risen = []
    for passage, question, stated, usual in CASES:
        odds = []
        for faithful in (0, 0.25, 0.5):
            formula = f"context_aware(M, without, {faithful})"
            told, remembered = (
                sum(engine.score(prompt(passage, question), f" {text}", formula, read))
                for text in (stated, usual)
            )
            odds.append(told - remembered)
        risen.append(odds[0] < odds[1] < odds[2])
        shown = " → ".join(f"{each:+.2f}" for each in odds)
        timed(f"{stated} against {usual} at faithful 0, 0.25, 0.5: {shown}")
    assert sum(risen) >= len(CASES) - 1


def test_the_page_has_the_right_answers_of_the_program(
    chat_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(runpy.run_path(str(PROGRAM))["main"](str(chat_file), "float32"))
    printed = capsys.readouterr().out
    with capsys.disabled():
        print(f"\n{printed}")
    for count in (1, 3):
        right = re.findall(rf"passages {count}  faithful [\d.]+ +right (\d+) of 40", printed)
        assert f"| SmolLM2-135M-Instruct, {count} | {' | '.join(right)} |" in PAGE


def test_a_chat_model_answers_from_the_passage(chat_engine: Engine, timed: Any) -> None:
    texts = {}
    for faithful in (0, 0.25):
        texts[faithful] = options(chat_engine, {}, faithful).submit(prompt(*CASES[0][:2])).result()
        timed(f"faithful={faithful}: {texts[faithful].text!r}")
    assert "Tokyo" in texts[0].text
    assert "Umeå" in texts[0.25].text
