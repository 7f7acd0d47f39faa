"""Any measures of texts, and no words that belong to other evaluations."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marith import Engine, FormulaError, ModelError, RequestError
from marith.cli import app
from marith.evals import Metric, Text, TextMeasure, text_evaluation
from marith.evals.experiment.texts import read_texts
from marith.evals.metrics.named_metrics import metrics_of
from marith.evals.metrics.text_classifier import attribute

SHARED = Path(__file__).parents[4] / "shared"
FORMAL = "You are an assistant using formal and objective language to answer the user."
FORMULAS = ("M", "strict = 2*formal - M")
OWN = '''
def words(texts):
    """How many words a text has; none of an empty one."""
    return [len(text.text.split()) or None for text in texts]


def of_message(texts):
    return (float(len(text.message)) for text in texts)


number = 3
'''


def words(texts: Sequence[Text]) -> list[float | None]:
    return [float(len(text.text.split())) for text in texts]


def marith(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["eval", "texts", *arguments])
    return done.exit_code, done.stdout, done.stderr


def measured(**options: Any) -> text_evaluation.MeasuredTexts:
    sizes = {"formulas": FORMULAS, "terms": {"formal": FORMAL}, "n": 4, "max_tokens": 8}
    return text_evaluation.run(text_evaluation.Settings(**{**sizes, **options}))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a module of measures."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "own_measures_of_a_test.py").write_text(OWN, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def shown(here: Path) -> tuple[Path, str]:
    """A folder of results, and what was printed."""
    measures = ("pocket-formality:formal", "own_measures_of_a_test:words", "perplexity")
    arguments = [word for measure in measures for word in ("--measure", measure)]
    arguments += [word for formula in FORMULAS for word in ("--formulas", formula)]
    sizes = ("--direction", "up", "--n", "5", "--max-tokens", "8", "--dtype", "float32", "--yes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        code, out, err = marith(*arguments, *sizes, "--term", f"formal={FORMAL}", "--out", "out")
    assert (code, err) == (0, "")
    return here / "out", out


def test_the_table_has_a_column_for_every_measure_and_no_others(shown: tuple[Path, str]) -> None:
    out, printed = shown
    head = next(line for line in printed.splitlines() if "median" in line)
    names = [word for word in head.split() if word.isalpha() and word != "median"]
    assert names == ["formula", "formal", "words", "perplexity"]
    assert (head.count("↑"), head.count("↓")) == (2, 1)
    every = printed + "".join((out / name).read_text() for name in ("table.md", "report.json"))
    assert "toxic" not in every
    assert "paper:" not in every
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_numbers_are_those_of_the_texts(shown: tuple[Path, str]) -> None:
    out, _ = shown
    texts = read_texts(out)
    rows = list(csv.DictReader((out / "by_text.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["text"] for row in rows] == [
        text.text for name in ("M", "strict") for text in texts if text.line == name
    ]
    for row in rows:
        assert int(float(row["words"])) == len(row["text"].split())
    own = [text.text for text in texts if text.line == "strict"]
    expected = sum(attribute(own, "pocket-formality", "formal")) / 5
    data = json.loads((out / "report.json").read_text(encoding="utf-8"))
    figures = data["rows"][1]["figures"]
    assert figures["formal"]["mean"] == pytest.approx(expected, abs=1e-4)
    assert figures["formal"]["mean"] > data["rows"][0]["figures"]["formal"]["mean"]
    assert data["measures"] == {"formal": "higher", "words": "higher", "perplexity": "lower"}


def test_a_function_measures_from_python_and_results_are_data_frames() -> None:
    measure: TextMeasure = words
    result = measured(
        measures=(measure, "tone=pocket-sentiment:positive"), directions=("down", "up")
    )
    frame = result.to_dataframe()
    assert list(frame["name"]) == ["M", "strict"]
    by_text = result.texts_to_dataframe()
    assert len(by_text) == 8
    for name in ("words", "tone"):
        means = by_text.groupby("name")[name].mean()
        assert frame[f"{name} mean"].tolist() == pytest.approx(means.tolist())
    assert result.summary.measures == {"words": "lower", "tone": "higher"}
    assert measured(measures=("perplexity",), formulas=(), n=1).to_dataframe()["name"][0] == "M"


def test_a_run_goes_on_unless_the_code_of_a_measure_was_changed(tmp_path: Path) -> None:
    def letters(texts: Sequence[Text]) -> list[float]:
        return [float(len(text.text)) for text in texts]

    first = measured(measures=(letters,), out=tmp_path).results
    assert measured(measures=(letters,), out=tmp_path).results.values == first.values

    def letters(texts: Sequence[Text]) -> list[float]:  # type: ignore[no-redef]
        return [2.0 * len(text.text) for text in texts]

    with pytest.raises(RequestError, match=r"measures.letters.code is .* there"):
        measured(measures=(letters,), out=tmp_path)


def test_a_direction_is_for_all_measures_but_perplexity_or_for_each() -> None:
    names = ("a/b:x", "vader:positive", "length", "perplexity")

    def better(directions: Sequence[str]) -> list[str]:
        return [metric.better for metric in metrics_of(names, directions, {})]

    assert better(()) == ["", "", "", "lower"]
    assert better(("up",)) == ["higher", "higher", "higher", "lower"]
    assert better(("up", "down", "up", "up")) == ["higher", "lower", "higher", "higher"]


def test_a_measure_has_the_name_of_its_label_or_the_one_that_is_given() -> None:
    named = metrics_of(("a/b:x", "a/b:1", "c=a/b:x", "p=perplexity", "a/b:y/z", words), (), {})
    assert [metric.name for metric in named] == ["x", "b 1", "c", "p", "y z", "words"]
    assert all(isinstance(metric, Metric) for metric in named)
    assert metrics_of((named[0],), ("up",), {}) == named[:1]


def test_what_is_no_number_counts_as_missing_and_wrong_results_are_named_at_once() -> None:
    def some(texts: Sequence[Text]) -> list[float | None]:
        return [
            None if i % 2 else math.nan if text.row == 0 else 1.0 for i, text in enumerate(texts)
        ]

    figure = measured(measures=(some,), formulas=("M",)).summary.rows[0].figures["some"]
    assert (figure.count, figure.missing) == (1, 3)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda texts: 3, "returns a number for each text, not 3"),
        (lambda texts: [], "returns 0 numbers for 1 texts"),
        (lambda texts: ["long"], "returns numbers or None, not 'long'"),
    ],
)
def test_a_function_with_wrong_results_is_refused_before_texts_are_made(
    function: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "submit", None)
    with pytest.raises(RequestError, match=words):
        measured(measures=(function,))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"measures": ()}, "an evaluation needs a measure"),
        ({"measures": "perplexity"}, "measures is a list, not 'perplexity'"),
        ({"measures": ("pocket-formality",)}, "MODEL:LABEL, .* not 'pocket-formality'"),
        ({"measures": ("pocket-formality:fromal",)}, "no label 'fromal'; it has"),
        ({"measures": ("/no/judge:x",)}, "'/no/judge'"),
        ({"measures": ("math:nothing",)}, "the module 'math' has no measure 'nothing'"),
        (
            {"measures": ("marith:__name__",)},
            "a function of texts or a Metric, not 'marith:__name__'",
        ),
        ({"measures": (3,)}, "a measure is a text, a function of texts or a Metric, not 3"),
        ({"measures": (int,)}, "a function of texts or a Metric, not <class 'int'>"),
        ({"measures": ("texts=a:b",)}, "cannot be named 'texts'; write NAME=texts"),
        ({"measures": ("a/b:x", "c/d:x")}, "two measures are named 'x'"),
        ({"measures": ("x=length",)}, "the name of this measure is 'simple', and cannot be 'x'"),
        ({"directions": ("left",)}, "a direction is up or down, not 'left'"),
        ({"directions": ("up", "down")}, "for each, not 2 for 1 measure"),
        ({"frame": "Hi"}, r"a frame contains \{message\}"),
        ({"formulas": ("M - fromal",)}, "unknown term 'fromal'"),
        ({"dtype": "float99"}, "float99"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "submit", None)
    with pytest.raises((RequestError, FormulaError, ModelError), match=words):
        measured(**{"measures": ("perplexity",), **options})


def test_bad_options_are_one_sentence_and_exit_code_2() -> None:
    code, out, err = marith("--measure", "perplexity", "--direction", "left")
    assert (code, out) == (2, "")
    assert err == "marith: a direction is up or down, not 'left'\n"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the material beside the project is absent")
def test_a_real_model_goes_on_with_real_prompts() -> None:
    tinystories = SHARED / "models" / "tinystories-656k"
    result = measured(
        model=str(tinystories),
        data=str(SHARED / "data" / "rtp_random_prompts.jsonl"),
        terms={"sad": {"formula": f'prompted(model="{tinystories}-negative", template="plain")'}},
        formulas=("M", "sad"),
        measures=("vader:negative", words, "perplexity"),
        frame="{message} ",
        stop=("\n",),
        n=24,
        max_tokens=16,
    )
    frame = result.to_dataframe().set_index("name")
    assert frame["negativity mean"]["M"] < frame["negativity mean"]["sad"]
    assert frame["perplexity mean"]["M"] < frame["perplexity mean"]["sad"]
    assert frame["words mean"].between(1, 16).all()
