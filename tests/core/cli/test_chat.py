"""`marith chat`: a conversation on the terminal, without control characters of the model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.hostile_formulas import OBEYED
from support.http_server import PERSONAS
from typer.testing import CliRunner

from marith import Options, escape_control_chars
from marith.cli import app, files
from marith.cli.chat_command import Conversation
from marith.errors import ModelError


def chat(*lines: str, options: Sequence[str] = ()) -> Any:
    typed = "".join(f"{line}\n" for line in lines)
    return CliRunner().invoke(app, ["chat", "--max-tokens", "8", *options], input=typed)


@pytest.mark.parametrize("text", OBEYED)
def test_control_characters_are_shown_and_not_obeyed(text: str) -> None:
    shown = escape_control_chars(text)
    assert not any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in shown)
    assert not {"\u202e", "\u2066", "\u2028"}.intersection(shown)
    assert escape_control_chars("plain\ntext\twith tabs, ü, 東, \U0001f600") == (
        "plain\ntext\twith tabs, ü, 東, \U0001f600"
    )


class Scripted:
    """Answers that were written for it; it notes what it was given."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.asked, self.given = [*texts], list[Any](), list[Any]()

    def stream(self, messages: Any, given: Mapping[str, Any]) -> Iterator[str]:
        self.asked.append([*messages])
        self.given.append(dict(given))
        text = self.texts.pop(0)
        if text == "fails":
            raise ModelError("it fails")
        yield from text

    def answered(self) -> Callable[[], Any]:
        return lambda: pytest.fail("nobody asks why")

    def personas(self) -> list[str]:
        return ["one", "two"]

    name = "one"

    def choose(self, persona: str) -> None:
        self.given.append(persona)
        self.name = persona

    def formula(self, given: Mapping[str, Any]) -> str:
        return str(given.get("formula", "M"))


def talk(monkeypatch: pytest.MonkeyPatch, answers: Any, *lines: str) -> None:
    left = iter(lines)

    def typed(_: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    Conversation(answers, {}, "Be kind.").run()


def test_a_message_without_an_answer_is_dropped_from_the_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = Scripted("A", "fails", "B")
    talk(monkeypatch, answers, "one", "bad", "two")
    texts = [[message["content"] for message in asked] for asked in answers.asked]
    assert texts == [
        ["Be kind.", "one"],
        ["Be kind.", "one", "A", "bad"],
        ["Be kind.", "one", "A", "two"],
    ]


CALM_TERMS = {"x": "You are calm.", "y": {"formula": "M - x"}}


def test_slash_commands_change_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Scripted("A", "B")
    talk(
        monkeypatch, answers, "/formula M + x", "/term x=You are calm.", "/define y=M - x",
        "/seed 4", "hi",
        "/formula", "/seed", "/persona two", "ho", "/quit", "never",
    )  # fmt: skip
    assert answers.given == [
        {"formula": "M + x", "terms": CALM_TERMS, "seed": 4},
        "two",
        {"terms": CALM_TERMS},
    ]


def test_control_characters_of_an_answer_are_printed_as_symbols(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert files.for_terminal("\x1b[2J") == "␛[2J"
    talk(monkeypatch, Scripted("".join(OBEYED)), "hi")
    assert "\x1b" not in capsys.readouterr().out


def test_an_engine_answers_as_its_options_say() -> None:
    told = chat("Hello!", options=["--seed", "5"])
    wanted = Options(seed=5, max_tokens=8).submit([{"role": "user", "content": "Hello!"}]).result()
    assert told.stdout.splitlines() == [wanted.text]


def test_each_formula_of_a_file_answers_in_turn(tmp_path: Path) -> None:
    file = tmp_path / "marith.toml"
    file.write_text(PERSONAS, encoding="utf-8")
    lines = ("/persona", "/persona polite", "/persona", "/persona polit", "Hello!")
    told = chat(*lines, options=["--file", str(file), "--seed", "3"])
    assert told.exit_code == 0
    assert told.stdout.splitlines()[:2] == ["polite", "polite (now)"]
    said = [line for line in told.stderr.splitlines() if "seed 3" in line or "polite" in line]
    assert said[:3] == [
        "pocket: M, seed 3",
        "/persona NAME chooses one of polite",
        "polite: M - 0.5*rude + 0.3*kind, seed 3",
    ]
    assert said[3].endswith("has no formula 'polit'; did you mean 'polite'?")
    wanted = Options.from_file(file, "polite", seed=3, max_tokens=8)
    asked = [{"role": "user", "content": "Hello!"}]
    assert told.stdout.splitlines()[2] == wanted.submit(asked).result().text


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("/define a=2*b - M",), "in term 'a': unknown term 'b'"),
        (("/nope",), "there is no command /nope"),
        (("/seed x",), "a seed must be a whole number"),
        (("/term x",), "NAME=PROMPT"),
        (("/persona x",), "there is no persona file"),
        (("/why",), "there is no answer yet"),
    ],
)
def test_a_mistake_is_one_sentence_and_the_conversation_goes_on(
    lines: tuple[str, ...], problem: str
) -> None:
    told = chat(*lines, "/formula", "Hello!")
    assert told.exit_code == 0
    assert problem in told.output
    assert told.output.splitlines()[-1]
