"""Models without a chat template: turns are text, which an answer does not go on with."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from marith import Engine, Grammar, Prompted
from marith.request.request import RowFunction
from marith.scoring.weights.locate import WEIGHTS

TURNS = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "How are you?"},
]
SAID = " I am well.\nUser: And you?\nAssistant: Well."


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Engine]:
    """Pocket without its chat template."""
    folder = tmp_path / "base"
    shutil.copytree(WEIGHTS / "pocket", folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    with Engine.load(folder) as engine:
        yield engine


def saying(engine: Engine, text: str) -> RowFunction:
    """A constraint under which the answer is a text."""
    tokens = [*engine.encode(text), *engine.end_tokens[:1]]

    def only_it(rows: Tensor, _: Sequence[int], places: Sequence[int]) -> Tensor:
        rows -= 1000
        for row, place in zip(rows, places, strict=True):
            row[tokens[min(place, len(tokens) - 1)]] = 0.0
        return rows

    return only_it


def test_an_answer_ends_before_the_next_turn(base: Engine) -> None:
    constraints = [saying(base, SAID)]
    told = base.generate(TURNS, constraints=constraints, temperature=0)
    assert (told.text, told.finish_reason) == (" I am well.", "stop")
    pieces = "".join(map(str, base.stream(TURNS, constraints=constraints, temperature=0)))
    assert pieces == " I am well."


def test_a_prompt_without_turns_does_not_end_at_a_turn(base: Engine) -> None:
    for prompt in ("Once", base.encode("Once"), TURNS[:1]):
        told = base.generate(prompt, constraints=[saying(base, SAID)], temperature=0)
        assert told.text == SAID


@pytest.mark.parametrize(
    ("grammar", "may_be"),
    [
        (Grammar.choice(["a\nUser: b", "c\nUser: b"]), ["a\nUser: b", "c\nUser: b"]),
        (Grammar.regex("\nUser: abc"), ["\nUser: abc"]),
    ],
)
def test_a_grammar_is_followed_past_what_looks_like_a_turn(
    base: Engine, grammar: Grammar, may_be: list[str]
) -> None:
    told = base.generate(TURNS, grammar=grammar, temperature=0)
    assert told.text in may_be
    assert "".join(map(str, base.stream(TURNS, grammar=grammar, temperature=0))) == told.text


@pytest.mark.parametrize("prompt", ["Hi", TURNS[:1], TURNS])
def test_a_missing_template_is_reported_once(
    base: Engine, prompt: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A base model continues what it reads, so that a persona is no help to it."""
    with caplog.at_level(logging.WARNING, "marith"):
        base.generate(prompt, terms={"M": Prompted(template="plain")}, max_tokens=1)
        base.generate(base.encode("Hi"), max_tokens=1)
        assert "chat template" not in caplog.text
        for _ in range(2):
            base.generate(prompt, "2*kind - M", {"kind": "You are kind."}, max_tokens=1)
    assert caplog.text.count("has no chat template") == 1
    assert 'template="plain"' in caplog.text
    assert "-Instruct" in caplog.text
    assert "base" in caplog.text  # the name of the model
