"""Examples: every formula's answer to every prompt, side by side, with what it cost."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from marith import Engine, Sampling, Stop
from marith.cli import app
from marith.evals.experiment.experiment import seed_of
from marith.evals.paper import examples
from marith.evals.paper.examples import FORMULAS, Settings
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check


def marith(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["eval", "examples", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_answers_are_those_of_the_engine_with_what_they_cost(tmp_path: Path) -> None:
    asked = ("--formulas", "M", "--formulas", "strict=2*formal - M", "--seed", "3", "--n", "2")
    code, told, _ = marith(*asked, "--max-tokens", "12", "--out", str(tmp_path / "out"))
    assert code == 0
    written = (tmp_path / "out" / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(written) == 2
    with Engine.load("pocket") as engine:
        for example in map(json.loads, written):
            assert [answer["name"] for answer in example["answers"]] == ["M", "strict"]
            for answer in example["answers"]:
                seed = seed_of(3, example["row"], 0)
                made = engine.generate(
                    example["prompt"],
                    answer["formula"],
                    examples.TERMS,
                    Sampling(seed=seed),
                    Stop(12),
                )
                assert answer["text"] == made.text
                assert answer["usage"] == {
                    "prompt_tokens": made.usage.prompt_tokens,
                    "completion_tokens": len(made.tokens),
                    "total_tokens": made.usage.total_tokens,
                }
    page = (tmp_path / "out" / "examples.md").read_text(encoding="utf-8")
    assert page.rstrip() in told
    assert page.count("## ") == 2
    assert page.count("| strict |") == 2


def test_a_text_stays_in_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("Is a | b true?\n", encoding="utf-8")
    report = examples.run(Settings(data=str(path), formulas=("M",), max_tokens=4))
    assert "## Is a \\| b true?" in report.to_markdown()
    assert len(report.to_json_lines().splitlines()) == 1


def test_the_formulas_that_are_shown_mean_something() -> None:
    for formula in FORMULAS:
        check(parse(formula), resolve(examples.TERMS))


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    code, out, err = marith("--formulas", "M - 2*M")
    assert (code, out) == (2, "")
    assert "more than zero" in err
