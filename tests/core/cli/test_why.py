"""`marith why`: readable without colours, and without control characters of the model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.hostile_formulas import OBEYED
from support.pocket_vectors import write_vector
from typer.testing import CliRunner

from marith import Engine, Inspection, Options, Request, Sampling, Stop, submit_with_inspection
from marith.cli import app
from marith.cli.chat_command import LIKELIEST, Answers, Conversation, Messages
from marith.cli.why_command import inspection_of, print_inspection
from marith.errors import ModelError
from marith.inspection.inspected_position import LikelyToken

PROMPT = "How do I boil an egg?"
FORMULA = ["--formula", "2*kind - M", "--term", "kind=Be kind.", "--seed", "3"]


def why(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["why", PROMPT, *arguments])
    return result.exit_code, result.stdout, result.stderr


def plain(strip: str) -> str:
    """The text of a line without colours, brackets and pushes."""
    return re.sub(r"\[|\]| [+-][\d.]+(?=\])", "", strip)


@pytest.fixture(scope="module")
def inspection() -> Inspection:
    with Engine.load("pocket") as engine:
        formula, terms = "2*kind - 0.5*union(kind, M) - 0.2*M", {"kind": "Be kind."}
        request = Request(PROMPT, formula, terms, Sampling(seed=3), Stop(12), inspect=3)
        completion = submit_with_inspection(engine, request).result()
    assert completion.inspection is not None
    assert completion.inspection.flipped
    return completion.inspection


def test_an_answer_is_explained_without_colours() -> None:
    code, out, err = why(*FORMULA, "--max-tokens", "10")
    assert code == 0, err
    assert "\x1b" not in out
    whole = why(*FORMULA, "--max-tokens", "10", "--all")[1]
    data = json.loads(why(*FORMULA, "--max-tokens", "10", "--json", "--top", "2")[1])
    inspected = Inspection.from_json(json.dumps(data))
    assert {len(position.top) for position in inspected.positions} == {2}
    flipped = inspected.flipped
    assert f"{len(flipped)} of {len(inspected.positions)} tokens are the formula's" in out
    assert out.count("\n") < whole.count("\n")
    for position in inspected.positions:
        line = re.compile(rf"^ *{position.place}  .*{position.logprob:+.2f}", re.MULTILINE)
        assert line.search(whole)
        assert bool(line.search(out)) == position.flipped
        if position.flipped:
            assert f"{position.push:+.2f}]" in out


def test_a_given_text_is_explained_without_sampling() -> None:
    code, out, err = why(*FORMULA[:-2], "--continuation", "Hello there", "--all")
    assert code == 0, err
    assert plain(out.splitlines()[0]) == "Hello there"
    assert "log-odds" in out


def test_what_vectors_push_has_columns_and_a_legend(tmp_path: Path) -> None:
    file = write_vector(tmp_path / "v.gguf")
    define = f"merry=prompted(vectors={{{json.dumps(str(file))}: 0.6}})"
    asked = ("--formula", "M + 2*(merry - M)", "--define", define, "--temperature", "0")
    code, out, err = why(*asked, "--max-tokens", "8", "--all")
    assert code == 0, err
    inspection = Inspection.from_json(why(*asked, "--max-tokens", "8", "--json")[1])
    assert "vectors of merry  moved most" in out
    assert "vectors of x: log P of x - log P of x without its vectors" in out
    for position in inspection.positions:
        [push] = [view.vectors for view in position.terms if view.vectors]
        assert re.search(rf"^ *{position.place}  .* {re.escape(f'{push.push:+.2f}')}  ", out, re.M)
    assert "vectors" not in why(*FORMULA, "--max-tokens", "4", "--all")[1]


def test_bad_input_is_one_sentence() -> None:
    code, out, err = why("--top", "0")
    assert (code, out) == (2, "")
    assert err == "marith: --top must be a whole number of at least 1, not 0\n"
    code, out, err = why("--all", "--json")
    assert (code, out) == (2, "")
    assert err == "marith: --json always has every position; write --json without --all\n"


@pytest.mark.parametrize("option", ["--seed=0", "--stop=a"])
def test_sampling_options_are_refused_with_a_given_text(option: str) -> None:
    code, out, err = why("--continuation", "Hello", option)
    name = option.partition("=")[0]
    assert (code, out) == (2, "")
    assert err == f"marith: --continuation samples no token; leave out {name}\n"


def hostile(inspection: Inspection, text: str) -> Inspection:
    likely = LikelyToken(1, text, -1.0)
    positions = tuple(
        replace(p, text=text, top=(likely,), bare_likeliest=likely, reference=likely, flipped=True)
        for p in inspection.positions
    )
    parts = tuple(replace(part, text=f'prompted("{text}")') for part in inspection.parts)
    return replace(inspection, positions=positions, parts=parts)


@pytest.mark.parametrize("text", [*OBEYED, "\n\t"])
@pytest.mark.parametrize("coloured", [False, True])
def test_control_characters_are_shown_and_not_obeyed(
    inspection: Inspection,
    text: str,
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    colours: Any = {"force_terminal": True, "color_system": "256"} if coloured else {}
    monkeypatch.setattr("marith.console.terminal", lambda: Console(width=500, **colours))
    print_inspection(hostile(inspection, text), every=True)
    out = re.sub("\x1b\\[[\\d;]*m" if coloured else "(?!)", "", capsys.readouterr().out)
    assert not any(
        ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in out if letter not in "\n\t"
    )
    assert not {"\u202e", "\u2066", "\u2028"}.intersection(out)
    if text.startswith("[bold"):
        assert text in out
    table = out.split("bare model's.\n")[1]
    assert "\t" not in table


def test_why_in_a_conversation_explains_the_last_answer() -> None:
    def chat(*lines: str, options: tuple[str, ...] = ()) -> Any:
        typed = "".join(f"{line}\n" for line in lines)
        return CliRunner().invoke(app, ["chat", "--max-tokens", "8", *options], input=typed)

    result = chat("/why", PROMPT, "/why", options=tuple(FORMULA))
    assert result.stderr.count("there is no answer yet") == 1
    (counted,) = re.findall(r"\d+ of (\d+) tokens are the formula's likeliest", result.stdout)
    assert int(counted) <= 8
    answer, shown, *_ = result.stdout.splitlines()
    assert plain(shown) == answer


def talk(monkeypatch: pytest.MonkeyPatch, answers: Answers, given: Any, *lines: str) -> None:
    left = iter((*lines, "/quit"))
    monkeypatch.setattr("builtins.input", lambda _: next(left))
    Conversation(answers, given).run()


DRAWN = {"seed": 3, "max_tokens": 8}
CALM = {"formula": "2*calm - M", "terms": {"calm": "Be calm."}}


@pytest.mark.parametrize("between", [["It fails."], ["/formula M", "/seed 4"]])
def test_why_explains_the_latest_answer_after_retries_and_resets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], between: list[str]
) -> None:
    options = Options(**DRAWN, **CALM)
    messages = [{"role": "user", "content": PROMPT}]
    wanted = options.submit(messages).result()
    talk(monkeypatch, _Failing(None, None, DRAWN | CALM), {}, PROMPT, *between, "/why")
    lines = capsys.readouterr().out.splitlines()
    assert wanted.text == lines[0]
    inspected = inspection_of(options, messages, wanted.tokens, LIKELIEST)
    assert lines[-len(page := printed(inspected, capsys)) :] == page


class _Failing(Answers):
    """An engine that fails within the answer to one message."""

    def stream(self, messages: Messages, overrides: Mapping[str, Any]) -> Iterator[str]:
        yield from super().stream(messages, overrides)
        if messages[-1]["content"] == "It fails.":
            raise ModelError("it fails")


def printed(inspection: Inspection, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_inspection(inspection, every=False)
    return capsys.readouterr().out.splitlines()
