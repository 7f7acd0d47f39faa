"""Perplexity: exactly the tokens of a text and of a corpus, beside a direct calculation."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from marith import Engine, RequestError
from marith.cli import app
from marith.evals import perplexity
from marith.evals.experiment.texts import read_texts
from marith.evals.paper import toxicity
from marith.evals.perplexity import CORPUS, EvaluationSettings, corpus
from marith.testing import END, tiny_model, tiny_tokenizer

TEXTS = ("a b c d", "z", "q r s t u v w")


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return str(path)


def directly(text: str) -> tuple[float, int]:
    """Nats and tokens of a text, by transformers alone."""
    model, tokenizer = tiny_model(seed=4, context_length=1024), tiny_tokenizer()
    start = tokenizer("").input_ids or [tokenizer.bos_token_id]
    tokens = tokenizer(text, add_special_tokens=False).input_ids
    with torch.no_grad():
        logits = model(torch.tensor([start + tokens])).logits[0].log_softmax(-1)
    at = range(len(start) - 1, len(start) + len(tokens) - 1)
    return -sum(float(logits[i, t]) for i, t in zip(at, tokens, strict=True)), len(tokens)


def test_it_is_of_all_tokens_and_of_no_others(tiny_dir: str, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = perplexity.run(EvaluationSettings(model=tiny_dir, data=data, out=out))
    (row,) = report.rows
    expected = {text: directly(text) for text in TEXTS}
    written = (out / "by_text.csv").read_text(encoding="utf-8").splitlines()
    for line in csv.DictReader(written):
        nats, tokens = expected[line["text"]]
        assert int(line["tokens"]) == tokens
        assert float(line["perplexity"]) == pytest.approx(math.exp(nats / tokens), rel=1e-3)
    means = [math.exp(nats / tokens) for nats, tokens in expected.values()]
    assert row.figures["perplexity"].mean == pytest.approx(sum(means) / 3, rel=1e-4)
    nats, tokens = (sum(numbers) for numbers in zip(*expected.values(), strict=True))
    assert row.figures[CORPUS].mean == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert row.figures[CORPUS].low < row.figures[CORPUS].mean < row.figures[CORPUS].high


def test_a_formula_that_rules_a_token_out_finds_it_infinitely_unlikely(
    tiny_dir: str, data: str
) -> None:
    formulas = ("M", "best of M = M.top_k(1)", "twice = 2*M - 0.5*other")
    terms = {"other": "q r s"}
    report = perplexity.run(
        EvaluationSettings(model=tiny_dir, data=data, formulas=formulas, terms=terms)
    )
    bare, one, twice = (row.figures["perplexity"] for row in report.rows)
    assert math.isinf(one.mean)
    assert 1 < bare.mean < math.inf
    assert twice.mean != bare.mean


def test_made_texts_are_read_after_their_prompts_and_keep_their_tokens(tmp_path: Path) -> None:
    made, out = tmp_path / "made", tmp_path / "out"
    size: dict[str, Any] = {"n": 3, "max_tokens": 6, "samples": 2}
    first = toxicity.run(toxicity.ToxicitySettings(formulas=("M", "toxic"), out=made, **size))
    terms = {"toxic": str(first.settings["terms"]["toxic"])}
    asked = EvaluationSettings(data=str(made), formulas=("M", "toxic"), terms=terms, out=out)
    report = perplexity.run(asked)
    assert [row.line.name for row in report.rows] == [
        "M of M",
        "M of toxic",
        "toxic of M",
        "toxic of toxic",
    ]
    for row, before in zip(report.rows[:2], first.rows, strict=True):
        mean = before.figures["perplexity"].mean
        assert row.figures["perplexity"].mean == pytest.approx(mean, rel=1e-4)
    texts = [text for text in read_texts(made) if text.line == "M"]
    with Engine.load("pocket") as engine:
        scores = [engine.score(text.prompt, text.tokens, "toxic", terms) for text in texts]
    nats, count = -sum(map(sum, scores)), sum(map(len, scores))
    assert report.rows[2].figures[CORPUS].mean == pytest.approx(math.exp(nats / count), rel=1e-4)
    assert report == perplexity.run(asked)
    file = made / "texts.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"text": " ', '"text": "'), "utf-8")
    with pytest.raises(RequestError, match="the texts are not the same"):
        perplexity.run(asked)


def test_texts_of_another_vocabulary_or_an_unfinished_run_are_refused(
    tmp_path: Path, tiny_dir: str
) -> None:
    made = tmp_path / "made"
    toxicity.run(toxicity.ToxicitySettings(formulas=("M", "toxic"), n=2, max_tokens=4, out=made))
    with pytest.raises(RequestError, match=r"the tokens of .* are not of"):
        perplexity.run(EvaluationSettings(model=tiny_dir, data=str(made)))
    with pytest.raises(RequestError, match="all are read; seed is 3"):
        perplexity.run(EvaluationSettings(data=str(made), seed=3))
    with pytest.raises(RequestError, match="all are read; n is 1"):
        perplexity.run(EvaluationSettings(data=str(made), n=1))
    path = made / "texts.jsonl"
    path.write_text(
        "".join(path.read_text(encoding="utf-8").splitlines(True)[:3]), encoding="utf-8"
    )
    assert len(read_texts(made)) == 3
    with pytest.raises(RequestError, match="is not finished"):
        perplexity.run(EvaluationSettings(data=str(made)))


def test_every_token_of_a_corpus_counts_alike() -> None:
    together = corpus([2.0, 8.0], [3, 1])
    assert together.mean == pytest.approx((2**3 * 8) ** (1 / 4))
    assert together.count == 2
    assert corpus([], []).count == 0
    assert math.isinf(corpus([2.0, math.inf], [1, 1]).mean)


def test_a_text_that_does_not_fit_is_named_by_its_row(tiny_dir: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(f"a b\n{'a b ' * 600}\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["eval", "perplexity", "--model", tiny_dir, "--data", str(path)])
    assert done.exit_code == 2
    assert "row 1 of the data: the continuation has 1200 tokens" in done.stderr


def test_the_command_prints_both_figures() -> None:
    done = CliRunner().invoke(app, ["eval", "perplexity", "--n", "3", "--formulas", "M"])
    assert done.exit_code == 0
    assert "perplexity of 3 texts to pocket: pocket's own film reviews" in done.stdout
    assert "corpus perplexity" in done.stdout


def test_an_end_token_is_letters_in_a_given_text(tiny_dir: str) -> None:
    with Engine.load(tiny_dir) as engine:
        assert engine.decode(engine.encode(f"a {END} b")) != "a b"
