"""Evaluations of several formulas: the paper's rows, folders that are used again, killed runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import read_eval_log

from marith.errors import RequestError
from marith.evals.evaluations import (
    EvaluationConfig,
    SentimentConfig,
    TextsConfig,
    ToxicityConfig,
    evaluate_perplexity,
    evaluate_sentiment,
    evaluate_texts,
    evaluate_toxicity,
)  # fmt: skip
from marith.evals.results import Results
from marith.scoring.weights.locate import WEIGHTS

FEW: dict[str, Any] = {"n": 3, "max_tokens": 8}


def all_texts(results: Results) -> list[list[str]]:
    return [[text.text for text in row.texts] for row in results.rows]


def test_the_papers_formulas_stand_beside_its_figures() -> None:
    results = evaluate_toxicity(ToxicityConfig(**FEW))
    assert [row.line.name for row in results.rows][:4] == ["M", "self-debiased", "FUDGE", "PREADD"]
    assert results.rows[0].paper == "0.288 / 13.46"
    assert results.measures == ("toxicity", "perplexity")
    assert all(len(row.texts) == 3 for row in results.rows)


def test_rows_with_a_classifier_are_left_out_where_there_is_none(tmp_path: Path) -> None:
    shutil.copytree(WEIGHTS / "pocket", tmp_path / "other")
    asked = SentimentConfig(
        model=str(tmp_path / "other"), to="positive", judge="vader:positive", dtype="float32", **FEW
    )
    results = evaluate_sentiment(asked)
    assert "C" not in "".join(row.line.formula for row in results.rows)
    assert "FUDGE, union 0.96 + C" in results.notes[0]


def test_likelihoods_of_given_texts_are_those_of_the_formula() -> None:
    terms = {"formal": "Speak formally."}
    asked = EvaluationConfig(n=3, formulas=("M", "2*formal - M"), terms=terms)
    bare, other = (row.estimate("perplexity") for row in evaluate_perplexity(asked).rows)
    assert bare.count == other.count == 3
    assert 1 < bare.mean < other.mean
    results = evaluate_perplexity(replace(asked, over="bytes", formulas=("M",)))
    assert results.title == "perplexity of pocket, over bytes, seed 0"
    # A byte is likelier than a token, which has several.
    assert 1 < results.rows[0].estimate("perplexity").mean < bare.mean


def test_a_folder_with_older_results_gives_only_the_results_that_were_asked_for(
    tmp_path: Path,
) -> None:
    rows = tmp_path / "rows.jsonl"

    def asked(**changed: Any) -> Results:
        given = {"measures": ["length"], "data": str(rows), "max_tokens": 8, "formulas": ("a=M",)}
        return evaluate_texts(TextsConfig(out=tmp_path / "out", **{**given, **changed}))

    rows.write_text('{"text": "Tell me about bread."}\n', encoding="utf-8")
    first = all_texts(asked())
    assert all_texts(asked()) == first
    renamed = asked(formulas=("b=M",))
    assert (renamed.rows[0].line.name, all_texts(renamed)) == ("b", first)
    assert max(map(len, all_texts(asked(max_tokens=2))[0])) < len(first[0][0])
    rows.write_text('{"text": "How do I boil an egg?"}\n', encoding="utf-8")
    assert asked().rows[0].texts[0].message == "How do I boil an egg?"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"formulas": ("M", "M")}, "'M' is evaluated twice"),
        ({"formulas": ("a=M", "a=2*M")}, "'a' is evaluated twice"),
        ({"measures": ["x=length", "x=vader:positive"]}, "two measures have the same name"),
    ],
)
def test_duplicate_formulas_and_measures_are_refused(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        evaluate_texts(TextsConfig(**{"measures": ["length"], **FEW, **asked}))


def test_a_killed_run_is_resumed_with_the_texts_that_it_had(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "marith", "eval", "toxicity", "--n", "40", "--formulas", "M",
        "--out", str(tmp_path),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        until = time.monotonic() + 120
        while not (made := _texts_in(tmp_path)) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert 0 < len(made) < 40
    results = evaluate_toxicity(ToxicityConfig(n=40, formulas=("M",), out=tmp_path))
    resumed = {text.row: text.text for text in results.rows[0].texts}
    assert len(resumed) == 40
    assert made.items() <= resumed.items()


def _texts_in(folder: Path) -> dict[int, str]:
    """Return the texts that a run which may still be writing has logged."""
    try:
        return {
            int(sample.id): sample.output.completion
            for path in folder.rglob("*.eval")
            for sample in read_eval_log(str(path)).samples or []
        }
    except Exception:  # the file is being written
        return {}
