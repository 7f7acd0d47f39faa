"""Sentiment: both directions, beginnings of reviews, and a classifier for the tone asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.ggml_files import write_pocket
from typer.testing import CliRunner

from marith import Engine, ModelError
from marith.cli import app
from marith.evals.experiment.texts import read_texts
from marith.evals.paper import sentiment
from marith.evals.paper.sentiment import SentimentSettings, beginnings
from marith.formula.meaning.binding import parse, resolve
from marith.formula.tree.terms import Classifier


def marith(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["eval", "sentiment", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(("to", "other"), [("positive", "negative"), ("negative", "positive")])
def test_the_tone_is_turned_and_measured(to: str, other: str) -> None:
    formulas = ("M", f"{to} - 0.6*{other}")
    report = sentiment.run(SentimentSettings(to=to, formulas=formulas, n=6, max_tokens=16))
    assert list(report.measures.items()) == [(to, "higher"), ("perplexity", "lower")]
    bare, turned = (row.figures[to].mean for row in report.rows)
    assert turned > bare + 0.2
    assert report.evaluation == f"{to} sentiment"


def test_the_papers_rows_are_the_default_and_the_classifier_makes_its_own_tone_likelier() -> None:
    for to, other in (("positive", "negative"), ("negative", "positive")):
        found = sentiment.evaluation(SentimentSettings(to=to, n=2))
        experiment = found.experiment
        known = resolve(experiment.terms)
        assert known["C"] == Classifier("pocket-sentiment", label=to)
        assert str(known[to]).startswith(f'prompted("The following is a {to} movie review, with a')
        assert [line.formula for line in experiment.lines] == [
            "M",
            to,
            f"self_debias({to}, {other}, decay=10, floor=0)",
            f"{to} + C",
            f"{to} - 0.6*{other}",
            f"{to} - 0.96*union(negative, positive)",
            f"{to} - 0.96*union(negative, positive) + 0.04*C",
        ]
        assert experiment.stop.max_tokens == 64
        assert experiment.source == f"pocket's own {other} film reviews"
        assert found.table.measures == (to, "perplexity")
        assert found.notes == (
            f"pocket-sentiment ({to}) judges; it was trained on pocket's own texts",
        )


def test_a_review_is_cut_to_its_first_tokens_and_a_short_one_is_whole(
    tiny_dir: str, tmp_path: Path
) -> None:
    long = "The film was made in a small town. " * 20
    with Engine.load("pocket") as engine:
        (cut, whole) = beginnings("pocket", [long, "Short."])
        assert engine.encode(cut) == engine.encode(long)[:32]
    assert whole == "Short."
    assert beginnings("pocket-draft", [long]) == [cut]
    assert beginnings(tiny_dir, ["a b c d"], 2) == ["ab"]
    file = write_pocket(tmp_path, ("f16",)) / "f16.gguf"
    assert beginnings(str(file), [long]) == [cut]
    with pytest.raises(ModelError, match="cannot load the tokenizer of 'owner/name'"):
        beginnings("owner/name", [long])


def test_rows_of_one_tone_are_taken_from_reviews_with_labels(tmp_path: Path) -> None:
    path = tmp_path / "imdb.jsonl"
    rows = [
        {"text": f"Film {i} was {'bad' if i % 2 else 'good'}.", "label": i % 2} for i in range(6)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    out = str(tmp_path / "out")
    sizes = ("--formulas", "M", "--max-tokens", "2", "--judge", "vader", "--out", out)
    code, told, _ = marith("--to", "positive", "--data", str(path), "--where", "label=1", *sizes)
    assert code == 0
    assert "3 prompts, 'text' of" in told
    assert {text.row for text in read_texts(tmp_path / "out")} == {1, 3, 5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "angry"), "a tone is one of negative, positive, not 'angry'"),
        (("--to", "positive", "--judge-label", "x"), "a label is of a classifier that judges"),
    ],
)
def test_bad_values_are_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = marith(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_the_classifier_parses_as_it_is_printed() -> None:
    term = parse('classifier("pocket-sentiment", label="negative")')
    assert term == Classifier("pocket-sentiment", label="negative")
