"""`marith generate`: every option of a model, a prompt by stdin, several answers, and time-outs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marith import Engine, Prompted, Sampling, Stop
from marith.cli import app

PERSONAS = """
[model]
max_tokens = 8
seed = 4
[terms]
kind = "You are a kind person."
[formulas]
plain = "M"
warm = { formula = "2*kind - M", max_tokens = 5 }
"""


def run(*arguments: str, text: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), input=text)
    return result.exit_code, result.stdout, result.stderr


def generated(*arguments: str, text: str | None = None) -> str:
    code, out, err = run("generate", *arguments, text=text)
    assert code == 0, err
    return out


def test_a_term_that_the_formula_does_not_use_is_named(personas: str) -> None:
    terms = ("--term", "formal=Be formal.", "--term", "kind=Be kind.")
    for command in (("show", "2*formal - M"), ("generate", "hi", "--formula", "2*formal - M")):
        limit = ("--max-tokens", "2") if command[0] == "generate" else ()
        code, _, err = run(*command, *terms, *limit)
        assert code == 0, err
        assert "the formula does not use the term 'kind'" in err
        assert "'formal'" not in err
    code, _, err = run("show", "M", "--file", personas)  # a file's terms are for many formulas
    assert code == 0
    assert "does not use" not in err


@pytest.fixture
def personas(tmp_path: Path) -> str:
    path = tmp_path / "marith.toml"
    path.write_text(PERSONAS, encoding="utf-8")
    return str(path)


def test_verbose_logs_to_standard_error_and_keeps_texts_out_of_it() -> None:
    words = ("generate", "My cucumber is green.", "--seed", "1", "--max-tokens", "8")
    command = [sys.executable, "-m", "marith", "-v", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == generated(*words[1:])
    lines = done.stderr.splitlines()
    assert all(re.match(r"(INFO|DEBUG) marith\.[\w.]+: ", line) for line in lines), done.stderr
    assert "loaded 'pocket' in" in lines[0]
    assert lines[-1].startswith("DEBUG marith.engine.jobs.generation: a request ended (")
    assert "cucumber" not in done.stderr
    assert done.stdout.strip() not in done.stderr


def test_a_dash_reads_the_prompt_from_standard_input() -> None:
    short = ("--seed", "1", "--max-tokens", "6")
    assert generated("-", *short, text="Hello there!\n") == generated("Hello there!", *short)


def test_an_empty_standard_input_is_refused() -> None:
    code, out, err = run("generate", "-", text="\n")
    assert (code, out) == (2, "")
    assert "standard input is empty" in err


def test_several_answers_have_the_seeds_that_follow() -> None:
    short = ("Hello!", "--max-tokens", "6")
    singly = [generated(*short, "--seed", str(seed)).rstrip("\n") for seed in (5, 6, 7)]
    assert generated(*short, "--seed", "5", "-n", "3").rstrip("\n").split("\n---\n") == singly
    as_json = json.loads(generated(*short, "--seed", "5", "-n", "3", "--json"))
    assert [answer["text"] for answer in as_json] == singly


def test_a_persona_of_a_file_answers_as_its_options_say(personas: str) -> None:
    warm = json.loads(generated("Hi", "--file", personas, "--persona", "warm", "--json"))
    plain = json.loads(generated("Hi", "--file", personas, "--model", "plain", "--json"))
    assert len(warm["tokens"]) <= 5
    assert len(plain["tokens"]) <= 8
    given = ("--formula", "2*kind - M", "--term", "kind=You are a kind person.", "--seed", "4")
    assert warm["text"] == generated("Hi", *given, "--max-tokens", "5").rstrip("\n")
    over = generated("Hi", "--file", personas, "--persona", "warm", "--max-tokens", "2", "--json")
    assert len(json.loads(over)["tokens"]) == 2


def test_an_adapter_with_a_name_is_a_term_and_without_one_the_model() -> None:
    short = ("Can you help me?", "--seed", "2", "--max-tokens", "10")
    named = generated(*short, "--adapter", "rude=pocket-rude", "--formula", "rude")
    assert generated(*short, "--adapter", "pocket-rude") == named
    with Engine.load() as engine:
        term = Prompted(adapter="pocket-rude")
        out = engine.generate(short[0], term, sampling=Sampling(seed=2), stop=Stop(10))
    assert named == out.text + "\n"


def test_an_answer_follows_a_schema_or_an_expression(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"glad": {"type": "boolean"}}, '
                      '"required": ["glad"]}', encoding="utf-8")  # fmt: skip
    assert set(json.loads(generated("Are you glad?", "--schema", str(schema), "--seed", "1"))) == {
        "glad"
    }
    assert generated("Yes or no?", "--regex", "yes|no", "--seed", "1") in ("yes\n", "no\n")


def test_options_of_placement_and_of_sampling_are_accepted() -> None:
    placed = ("--device", "cpu", "--dtype", "float32", "--context-length", "200")
    drawn = ("--min-p", "0.1", "--repetition-penalty", "1.2", "--top-k", "9", "--top-p", "0.9")
    assert generated("Hello!", *placed, *drawn, "--seed", "3", "--max-tokens", "4")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--persona", "warm"), "--persona 'warm' needs a persona file; write --file too"),
        (("-n", "0"), "-n must be a whole number of at least 1, not 0"),
        (("--device", "teapot"), "'teapot'"),
        (("--schema", "/no/where"), "cannot read '/no/where'"),
        (("--schema", __file__), "is not valid JSON"),
        (("--schema", "s.json", "--regex", "a"), "--schema or --regex, not both"),
        (("--adapter", "a=/x", "--adapter", "a=/y"), "--adapter defines 'a' twice: '/x' and '/y'"),
        (("--term", "a=kind", "--define", "a=M"), "'a' is defined by both --term and --define"),
        (("--adapter", "a=/x", "--define", "a=M"), "'a' is defined by both --define and --adapter"),
        (("--define", "M - a"), "--define must be NAME=FORMULA, not 'M - a'"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run("generate", "hi", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_a_time_out_has_its_own_exit_code_and_prints_no_answer() -> None:
    long = ("generate", "Tell me a story.", "--max-tokens", "400", "--timeout", "0.01")
    for form in ((), ("--json",), ("-n", "2")):
        code, out, err = run(*long, *form)
        assert (code, out) == (124, "")
        assert "not finished within 0.01 seconds" in err
