"""The command line: streams, JSON, trees, and one clear sentence with exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from marith.cli import app

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


def test_json_tells_all_there_is() -> None:
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
    assert data["stats"]["passes"] >= len(data["tokens"]) > 0
    assert data["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "hi", "--formula", "M - fromal"), "unknown term 'fromal'"),
        (("generate", "hi", "--formula", "M - 2*M"), "more than zero"),
        (("generate", "hi", "--model", "/no/where"), "/no/where"),
        (("generate", "hi", "--term", "formal"), "NAME=PROMPT"),
        (("generate", "hi", "--temperature", "-1"), "temperature"),
        (("generate", "hi", "--max-tokens", "0"), "max_tokens"),
        (("generate", "hi " * 3000), "context"),
        (("show", "__import__('os')"), "no meaning"),
        (("show", "a - 2*b"), "more than zero"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_show_draws_the_tree_without_torch() -> None:
    script = (
        "import sys; from marith.cli import app\n"
        "try: app(['show', 'M - 0.96*union(toxic, M) + 0.04*C'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "└── 0.04 × C" in done.stdout
    assert "24·relu(log toxic − log M)" in done.stdout
