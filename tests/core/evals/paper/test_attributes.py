"""The six curves: the paper's formulas, its axes, and attributes that follow their factors."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marith import Engine, ModelError, RequestError, parse
from marith.cli.shared import app
from marith.evals.experiment.texts import Text
from marith.evals.metrics.named_metrics import parse_metric
from marith.evals.metrics.simplicity import simplicity
from marith.evals.metrics.text_classifier import Attribute, attribute
from marith.evals.paper.attributes.attribute_metrics import OPEN, POCKET
from marith.evals.paper.attributes.curves import CURVES, first, second
from marith.evals.paper.attributes.fine_control import CurveSettings, run
from marith.evals.pocket_texts import phrases_by_prompt
from marith.evals.system_prompts import SYSTEM_PROMPTS
from marith.formula.meaning.binding import resolve
from marith.formula.meaning.checking import check
from marith.testing import tiny_classifier, tiny_tokenizer


def attributes(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["eval", "attributes", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The third curve over few prompts: a folder of results, and what was printed."""
    out = tmp_path_factory.mktemp("attributes") / "out"
    code, told, error = attributes(
        "--curve", "3", "--n", "4", "--max-tokens", "12", "--seed", "8", "--out", str(out)
    )  # fmt: skip
    assert code == 0, error
    return out, told


def test_an_attribute_rises_with_its_factor(
    shown: tuple[Path, str],
) -> None:
    (curve,) = json.loads((shown[0] / "report.json").read_text())["curves"]
    heights = [point["attribute"]["mean"] for point in curve["points"]]
    assert heights[-1] > heights[0] + 0.15
    assert curve["prompted"][0]["mean"] > heights[2]
    assert all(point["perplexity"]["mean"] >= 1 for point in curve["points"])


def test_the_files_tell_every_point_and_the_table_how_monotone_the_curve_is(
    shown: tuple[Path, str],
) -> None:
    out, told = shown
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    assert [float(row["factor"]) for row in rows] == list(CURVES[2].values)
    assert [row["formula"] for row in rows] == [CURVES[2].at(v) for v in CURVES[2].values]
    for text in (told, (out / "table.md").read_text()):
        assert "F₁, λ₃" in text
        assert "Spearman" in text
    for name in ("plot.png", "perplexity.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_every_formula_is_the_papers_and_means_something() -> None:
    assert parse(first(2, 3, 4)) == parse(
        "2*happy + 3*simple + 4*union(helpful, sports) - 3*helpful"
    )
    assert parse(second(2, 3, 4)) == parse("helpful + 2*union(helpful, formal) + 3*C + 4*simple")
    known = resolve(CurveSettings().all_terms)
    assert len(CURVES) == 6
    for curve in CURVES:
        assert list(curve.values) == sorted(set(curve.values))
        assert 1.0 in curve.values
        for value in curve.values:
            check(parse(curve.at(value)), known)


def test_the_axes_reach_as_far_as_the_papers() -> None:
    ends = [(curve.share(curve.values[0]), curve.share(curve.values[-1])) for curve in CURVES]
    two = pytest.approx(2 / 3)
    assert ends == [(-1, two), (-1, two), (-0.5, 2), (-1, two), (-1, 4), (-1, two)]
    assert CURVES[0].share(1.0) == pytest.approx(1 / 3)


def test_pockets_voices_are_the_papers_prompts_and_each_has_ways_of_its_own() -> None:
    assert SYSTEM_PROMPTS["happy"] == "You are a happy assistant."
    assert "related to sports" in SYSTEM_PROMPTS["sports"]
    assert {"hooray!", "and yay, *!"} <= phrases_by_prompt()["happy"]
    assert {"game on!", "the referee confirms that *."} <= phrases_by_prompt()["sports"]
    phrases = [phrases_by_prompt()[voice] for voice in ("happy", "simple", "sports", "formal")]
    assert all(phrases)
    assert sum(map(len, phrases)) == len(frozenset[str]().union(*phrases))
    ask = POCKET["sports"].open(None)
    told = ["The referee confirms that it is warm. It is warm.", "", "It is warm."]
    texts = [Text("x", i, 0, 0, "", "", said, (), "stop", 1, 1) for i, said in enumerate(told)]
    assert list(ask(texts)) == [0.5, None, 0.0]


def test_simplicity_is_one_minus_a_tenth_of_the_mean_word() -> None:
    assert simplicity("a bb ccc") == pytest.approx(1 - 2 / 10)
    assert simplicity(" \n") is None


def test_other_models_have_the_papers_judges_and_a_judge_may_be_named() -> None:
    assert isinstance(OPEN["formal"], Attribute)
    assert OPEN["formal"].model == "s-nlp/roberta-base-formality-ranker"
    asked = CurveSettings(judges={"happy": "vader:positive"}, only=(1, 5))
    assert list(asked.measures) == ["happy", "educational"]
    assert asked.measures["happy"].name == "positivity"
    assert parse_metric("x", "a/b:2").described() == {"model": "a/b", "label": "2"}
    assert parse_metric("x", "length") == OPEN["simple"]


def test_a_label_that_is_a_number_is_the_class_of_that_name_before_that_of_that_index(
    tmp_path: Path,
) -> None:
    tiny_classifier(labels=("1", "2")).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    reviews, texts = str(tmp_path), ["a b c", "d"]

    def measured(label: str) -> list[float]:
        metric = parse_metric("x", f"{reviews}:{label}")
        assert isinstance(metric, Attribute)
        return attribute(texts, metric.model, metric.label)

    assert measured("1") == attribute(texts, reviews, 0)  # the class that is named 1
    assert measured("2") == attribute(texts, reviews, 1)
    assert measured("0") == attribute(texts, reviews, 0)  # no class has that name
    for label in ("²", "3"):
        with pytest.raises(RequestError, match=f"no label '{label}'; it has 1, 2"):
            measured(label)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"only": (7,)}, "from 1 to 6, not 7"),
        ({"formulas": ("M",)}, "formulas of their own"),
        ({"judges": {"angry": "a:b"}}, "not 'angry'"),
        ({"judges": {"happy": "a"}}, "MODEL:LABEL, .* not 'a'"),
        (
            {"judges": {"happy": "vader:positive", "formal": "vader:positive"}},
            "two attributes have one judge, 'positivity'",
        ),
        ({"classifier": "vader:positive"}, "C is a classifier"),
        ({"judges": {"happy": "/no/judge:x"}}, "'/no/judge'"),
        ({"model": "/no/where"}, "'/no/where'"),
        ({"max_tokens": 0}, "max_tokens is a whole number from 1, not 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(told: dict[str, Any], words: str) -> None:
    with pytest.raises((RequestError, ModelError), match=words):
        run(CurveSettings(**{"n": 1, **told}))


def test_notes_about_the_data_are_printed_before_texts_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.jsonl").write_text('{"text": "Hi"}\n{"text": ""}\n', encoding="utf-8")
    monkeypatch.setattr(Engine, "load", None)
    with pytest.raises(TypeError):
        run(CurveSettings(data=str(tmp_path / "data.jsonl"), only=(3,)))
    assert capsys.readouterr().err == "1 of the rows have no text and are left out\n"


def test_bad_options_are_one_sentence_and_exit_code_2() -> None:
    code, out, err = attributes("--judge", "happy")
    assert (code, out) == (2, "")
    assert "ATTRIBUTE=MODEL:LABEL, not 'happy'" in err
