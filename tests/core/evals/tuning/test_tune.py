"""A search for strengths: what it finds is as good as a grid's best, within the limit."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from marith import FormulaError, RequestError, parse
from marith.cli import app
from marith.evals import suite
from marith.evals.formulas import NamedFormula
from marith.evals.statistics import Estimate
from marith.evals.tuning.outcome import Outcome, Trial
from marith.evals.tuning.tune import TuningConfig, highest, run, search
from marith.evals.tuning.unknowns import Range, filled

UNION = "M - a*union(toxic, M)"
A = Range("a", 0.0, 0.99)
numbers = st.floats(-10, 10).map(lambda value: round(value, 3))


def asked(**told: Any) -> TuningConfig:
    given = {"formula": UNION, "ranges": (A,), "attribute": "pocket-toxicity:toxic"}
    size = {"n": 4, "trials": 4, "max_tokens": 10, "seed": 8}
    return TuningConfig(**{**given, **size, "direction": "down", "task": "toxicity", **told})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    out = tmp_path_factory.mktemp("tuned")
    report = run(asked(out=out))
    report.show(out)
    return report, out


def test_the_result_is_as_good_as_a_grid_search_within_the_limit(
    found: tuple[Any, Path], tmp_path: Path
) -> None:
    report, _ = found
    assert report.best.perplexity.mean <= report.perplexity_limit == 1.2 * report.bare[1].mean
    formulas = [filled(UNION, {"a": a}) for a in (0.3, 0.6, 0.9)]
    lines = [NamedFormula(formula, formula) for formula in formulas]
    grid = suite.run("grid", asked().make, lines, asked().all_terms)
    measured = [
        (row.estimate("toxicity").mean, row.estimate("perplexity").mean) for row in grid.rows
    ]
    limit = report.perplexity_limit
    allowed = [attribute for attribute, perplexity in measured if perplexity <= limit]
    assert report.best.attribute.mean <= min(allowed) + 0.02
    assert report.best.attribute.mean < report.bare[0].mean


def test_the_files_tell_every_trial_and_the_formula_can_be_pasted(
    found: tuple[Any, Path],
) -> None:
    report, out = found
    rows = list(csv.DictReader((out / "trials.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["a"]) for row in rows] == [trial.factors["a"] for trial in report.trials]
    assert [row["best"] for row in rows].count("True") == 1
    assert str(parse(report.best.formula)) == report.best.formula
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_search_is_resumed_with_the_same_result(
    found: tuple[Any, Path], tmp_path: Path
) -> None:
    report, _ = found
    run(asked(out=tmp_path, trials=2))
    made = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.eval"))
    again = run(asked(out=tmp_path))
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.eval"))[: len(made)] == made
    assert [trial.formula for trial in again.trials] == [t.formula for t in report.trials]
    for one, two in zip(again.trials, report.trials, strict=True):
        assert one.attribute.mean == pytest.approx(two.attribute.mean, rel=1e-4)
        assert one.perplexity.mean == pytest.approx(two.perplexity.mean, rel=1e-4)


@given(numbers, numbers)
def test_a_formula_is_filled_as_if_it_had_been_written_so(a: float, b: float) -> None:
    template = (
        'M - {0}*union(x, M) + {1}*prompted("strength is b", hide="b") '
        "+ mixture({0}*{0}, M, {1}, x) - 2*{1}*contrastive(M, x, strength={0})"
    )
    text, values = template.format("strength", "b"), {"strength": a, "b": b}
    try:
        written = parse(template.format(a, b))
    except FormulaError:
        with pytest.raises(FormulaError):
            filled(text, values)
    else:
        assert filled(text, values) == str(written)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.floats(0, 1))
def test_a_factor_is_written_with_few_digits_and_within_its_range(
    low: float, width: float, share: float
) -> None:
    sought = Range("a", low, low + width)
    value = sought.written(low + share * width)
    assert sought.low <= value <= sought.high
    assert value in (sought.low, sought.high) or len(f"{abs(value):g}") <= 11


def measure(value: float) -> Estimate:
    return Estimate(value, value, value, value, 1)


def found_by(trials: list[Trial], better: str, most: float) -> Outcome:
    return Outcome("", "height", better, most, (measure(0), measure(0)), tuple(trials))


def test_a_search_finds_the_bound_and_survives_invalid_formulas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask(_: TuningConfig, formula: str) -> tuple[Estimate, Estimate]:
        a = explained(formula)
        if a < 0:
            raise FormulaError("the weights add up to less than zero", formula)
        return measure(-((a - 3) ** 2)), measure(2 * a)

    monkeypatch.setattr(TuningConfig, "measure", ask)
    sought = {"formula": "a*C + M", "ranges": (Range("a", -1.0, 4.0),), "direction": "up"}
    made = list(search(asked(**sought, trials=30, seed=0), 4.0))
    assert len(made) == 30
    assert [trial.factors["a"] for trial in made[:3]] == [1.5, -1.0, 4.0]
    assert "less than zero" in made[1].refused
    chosen = found_by(made, "higher", 4.0).best
    assert chosen is not None
    assert chosen.factors["a"] == pytest.approx(2.0, abs=0.2)
    assert chosen.factors["a"] <= 2.0
    again = list(search(asked(**sought, trials=8, seed=0), 4.0))
    # A refused trial has NaN, which differs from itself.
    assert list(map(repr, again)) == list(map(repr, made[:8]))


def explained(formula: str) -> float:
    """The factor of C in a*C + M."""
    first = formula.split("C")[0].rstrip("*")
    return {"": 1.0, "-": -1.0}.get(first) or float(first)


points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)


@given(points, st.sampled_from(["lower", "higher"]))
def test_no_trial_beats_the_frontier(pairs: list[tuple[int, int]], better: str) -> None:
    trials = [Trial(i, {}, str(i), measure(a), measure(p)) for i, (a, p) in enumerate(pairs)]
    sign = 1 if better == "lower" else -1
    outcome = found_by(trials, better, 3.0)
    ahead = [(sign * t.attribute.mean, t.perplexity.mean) for t in outcome.frontier]
    for one, two in itertools.permutations(ahead, 2):
        assert not (one[0] <= two[0] and one[1] <= two[1])
    for attribute, perplexity in pairs:
        assert any(a <= sign * attribute and p <= perplexity for a, p in ahead)
    chosen, kept = outcome.best, [sign * a for a, p in pairs if p <= 3]
    if kept:
        assert chosen is not None
        assert sign * chosen.attribute.mean == min(kept)
    elif pairs:
        assert chosen is not None
        assert chosen.perplexity.mean == min(p for _, p in pairs)
    else:
        assert chosen is None


def test_a_bound_is_a_perplexity_or_a_multiple_of_the_bare_models() -> None:
    assert highest("1.2x", 10.0) == 12.0
    assert highest(" 4.5 ", 10.0) == highest(4.5, 10.0) == 4.5


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"ranges": ()}, "a search needs a range"),
        ({"ranges": (A, A)}, "'a' is given twice"),
        ({"ranges": (A, Range("b", 0, 1))}, "has no unknown 'b'"),
        ({"ranges": (A, Range("toxic", 0, 1))}, "'toxic' is already a term"),
        ({"formula": "a + M"}, "a"),
        ({"attribute": "toxic"}, "MODEL:LABEL"),
        ({"direction": "left"}, "down or up, not 'left'"),
        ({"task": "cooking"}, "not 'cooking'"),
        ({"trials": 0}, "trials must be a whole number"),
        ({"frame": "Hi"}, "{message}"),
        ({"formulas": ("M",)}, "a search has one formula"),
    ],
)
def test_invalid_searches_are_refused(told: dict[str, Any], words: str) -> None:
    with pytest.raises((RequestError, FormulaError), match=words.replace("{", r"\{")):
        run(asked(**told))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--range", "a=0"), "NAME=LOW:HIGH, not 'a=0'"),
        (("--range", "a=1:0"), "not 1.0:0.0"),
        (("--range", "a=0:1", "--perplexity-limit", "0x"), "not '0x'"),
    ],
)
def test_bad_options_are_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], words: str
) -> None:
    sought = ("--attribute", "pocket-toxicity:toxic", "--direction", "down", "--task", "toxicity")
    done = CliRunner().invoke(app, ["tune", UNION, *sought, *arguments])
    assert done.exit_code == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
