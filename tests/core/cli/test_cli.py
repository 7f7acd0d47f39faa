"""The command line: streams, JSON, plans, trees, and one clear sentence with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marith import Plan
from marith.cli import app
from marith.cli.files import require_writable, write_or_print
from marith.errors import RequestError

PANDAS = "Tell me something interesting about pandas."
FORMAL = "formal=You are an assistant using formal and objective language to answer the user."


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_the_same_seed_prints_the_same_text_and_another_seed_another() -> None:
    asked = ("generate", PANDAS, "--formula", "2*formal - M", "--term", FORMAL, "--seed")
    first, again, other = run(*asked, "1"), run(*asked, "1"), run(*asked, "2")
    assert first[0] == 0
    assert first == again
    assert first != other
    assert len(first[1].split()) > 5


def test_json_contains_the_text_the_usage_and_the_stats() -> None:
    code, out, _ = run(
        "generate",
        "Hello!",
        "--json",
        "--max-tokens",
        "4",
        "--seed",
        "3",
        "--temperature",
        "0",
        "--top-p",
        "0.9",
        "--top-k",
        "5",
        "--system",
        "You are a child.",
        "--stop",
        "zebra",
    )
    data = json.loads(out)
    assert code == 0
    assert data["usage"]["total_tokens"] == data["usage"]["prompt_tokens"] + len(data["tokens"])
    stats = data["stats"]
    assert stats["passes"] + stats["accepted"] >= len(data["tokens"]) > 0
    assert data["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "hi", "--formula", "M - fromal"), "unknown term 'fromal'"),
        (("generate", "hi", "--model", "/no/where"), "/no/where"),
        (("generate", "hi", "--term", "formal"), "NAME=PROMPT"),
        (("generate", "hi", "--speculation", "/no/where"), "cannot read '/no/where'"),
        (("generate", "hi", "--speculation", __file__), "invalid plan"),
        (("calibrate", "M"), "--prompt TEXT or --prompts FILE"),
        (("calibrate", "M", "--prompt", "hi", "--costs", "money"), "time or calls, not 'money'"),
        (("calibrate", "M", "--prompt", "hi", "--output", "/no/where/p"), "'/no/where/p'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_a_calibrated_plan_is_written_shown_and_used(tmp_path: Path) -> None:
    corpus, path, asked = (tmp_path / name for name in ("corpus.txt", "plan.json", "asked.txt"))
    corpus.write_text("Pandas eat bamboo.\n" * 9, encoding="utf-8")
    asked.write_text(f"{PANDAS}\n\nHello!\n", encoding="utf-8")
    draft = f"A=ngram({str(corpus)!r}, order=3)"
    formula = ("supersede(A, M) + 0.5*formal", "--term", FORMAL, "--define", draft)
    measured = ("calibrate", *formula, "--prompts", str(asked), "--costs", "calls")
    code, out, err = run(*measured)
    plan = Plan.from_json(out)
    assert code == 0
    assert plan.to_json() == out.strip()
    assert "calibrating on 2 prompts" in err
    assert run(*measured, "--output", str(path))[:2] == (0, "")
    assert path.read_text(encoding="utf-8") == out
    generated = ("generate", PANDAS, "--formula", *formula, "--seed", "1", "--max-tokens", "12")
    code, out, _ = run(*generated, "--speculation", str(path), "--json")
    assert code == 0
    assert len(json.loads(out)["tokens"]) == 12


def test_a_plan_of_another_formula_is_refused_before_anything_loads(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(Plan.factors({"formal": 4}).to_json(), encoding="utf-8")
    code, out, err = run("generate", "hi", "--model", "/no/where", "--speculation", str(path))
    assert (code, out) == (2, "")
    assert "unknown term 'formal'" in err


def test_a_plan_drafts_and_speculation_none_does_not(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(Plan.factors({"formal": 3}).to_json(), encoding="utf-8")
    asked = ("generate", PANDAS, "--formula", "M + 0.5*formal", "--term", FORMAL, "--json")
    greedy = (*asked, "--temperature", "0", "--max-tokens", "16")
    ways = ("none", "auto", str(path))
    none, auto, planned = (json.loads(run(*greedy, "--speculation", way)[1]) for way in ways)
    assert none["tokens"] == auto["tokens"] == planned["tokens"]
    assert none["stats"]["drafted"] == 0 < planned["stats"]["drafted"]
    assert none["stats"]["acceptance"] is None
    stats = planned["stats"]
    assert stats["acceptance"] == stats["accepted"] / stats["drafted"]


def test_show_draws_the_tree() -> None:
    code, out, _ = run("show", "M - 0.96*union(toxic, M) + 0.04*C")
    assert code == 0
    assert "└── 0.04 × C" in out
    assert "24·relu(log toxic − log M)" in out


def test_show_explains_a_formula_of_a_file_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    path.write_text('[terms]\nkind = "Be kind."\n[formulas]\nwarm = "2*kind - M"', encoding="utf-8")
    by_name = run("show", "warm", "--file", str(path))
    assert by_name == run("show", "2*kind - M", "--term", "kind=Be kind.")
    assert by_name[0] == 0
    assert "2·log kind" in run("show", "2*kind - M", "--file", str(path))[1]
    assert run("show", "cold", "--file", str(path))[2].endswith(
        "has no formula and no term 'cold'; its formulas are warm\n"
    )
    assert run("show", "warm", "--file", "/no/where")[0] == 2
    path.write_text("[model]\ntemprature = 1\n[formulas]\nwarm = 'M'")
    code, _, err = run("show", "warm", "--file", str(path))
    assert (code, "did you mean 'temperature'?" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("union(a, b)",), "not defined: a, b (shown as system prompts)"),
        (("M - C",), "not defined: C (shown as a classifier)"),
        (("2*M - a", "--term", "a=Cook."), ""),
    ],
)
def test_names_that_are_not_defined_are_shown_and_listed(
    arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run("show", *arguments)
    assert code == 0
    assert err == (f"{sentence}; --term NAME=PROMPT defines one\n" if sentence else "")
    assert "total weight" in out


@pytest.mark.parametrize("output", ["--csv", "--plot"])
def test_a_calibration_whose_file_cannot_be_written_is_not_begun(output: str) -> None:
    code, _, err = run("eval", "speed", output, "/proc/timing.svg")
    assert code == 2
    assert "cannot write '/proc/timing.svg'" in err


def test_a_result_that_cannot_be_written_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RequestError, match="cannot write"):
        write_or_print("the plan", tmp_path / "gone" / "plan.json")
    assert capsys.readouterr().out == "the plan\n"


def test_checking_that_a_file_can_be_written_changes_and_creates_nothing(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text("text", encoding="utf-8")
    require_writable(here)
    require_writable(there)
    assert here.read_text(encoding="utf-8") == "text"
    assert not there.exists()
