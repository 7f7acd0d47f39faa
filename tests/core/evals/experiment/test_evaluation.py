"""The course of an evaluation: bars for what is under way, and prompts at fault by their rows."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from marith import ContextOverflow, FormulaError, ModelError, RequestError, Stop
from marith.engine.engine import Engine
from marith.evals.experiment import evaluation
from marith.evals.experiment.evaluation import first_tasks, run
from marith.evals.experiment.experiment import Experiment, seed_of
from marith.evals.experiment.store import read_lines
from marith.evals.experiment.summary import summarise
from marith.evals.experiment.texts import NamedFormula, PromptRow
from marith.evals.metrics.metric import Better, ValuesOfTexts
from marith.evals.reporting import estimate
from marith.evals.reporting.progress import FEW, Bars, progress


@dataclass(frozen=True, slots=True)
class Length:
    """A measure as anyone may write one: the letters of a text."""

    name: str = "length"
    better: Better = ""
    of_engine: bool = False
    broken: bool = False

    def described(self) -> Mapping[str, Any]:
        return {}

    def check(self) -> None:
        if self.broken:
            raise RequestError("no letters can be counted here")

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        assert engine is None
        return lambda texts: [float(len(text.text)) for text in texts]


@pytest.fixture
def experiment(tiny_dir: str) -> Experiment:
    prompts = tuple(PromptRow(row, word, word) for row, word in ((2, "a b"), (7, "c d")))
    lines = (NamedFormula("M", "M"), NamedFormula("twice", "2*M - 0.5*a"))
    size = {"samples": 2, "stop": Stop(5)}
    return Experiment("trial", tiny_dir, lines, {"a": "x y"}, prompts, (Length(),), **size)


def test_anyones_measure_is_a_column_over_prompts(experiment: Experiment, tmp_path: Path) -> None:
    results = run(experiment, tmp_path)
    report = summarise(results, "a title")
    for row in report.rows:
        texts = results.of_line(row.line.name)
        assert [text.row for text in texts] == [2, 2, 7, 7]
        means = [sum(len(t.text) for t in texts[i : i + 2]) / 2 for i in (0, 2)]
        assert row.figures["length"].mean == pytest.approx(sum(means) / 2)
    written = read_lines(tmp_path / "length.jsonl")
    assert [(one["line"], one["row"], one["sample"]) for one in written] == [
        text.key for text in results.texts
    ]


def test_what_has_no_number_is_left_out_of_its_prompts_mean(experiment: Experiment) -> None:
    results = run(replace(experiment, lines=experiment.lines[:1]))
    first, *rest = results.values["length"]
    none = replace(results, values={"length": {**results.values["length"], first: None}})
    alone = results.values["length"][rest[0]]
    assert none.by_prompt("M", "length")[0] == alone
    nothing = replace(results, values={"length": dict.fromkeys([first, *rest])})
    assert nothing.by_prompt("M", "length") == [None, None]
    report = summarise(nothing, "a title")
    assert math.isnan(report.rows[0].figures["length"].mean)
    assert report.notes == ("left out of length, for they have none: 2 of M",)


def test_a_judge_that_cannot_be_had_is_told_before_any_text_is_made(
    experiment: Experiment, tmp_path: Path
) -> None:
    broken = replace(experiment, measures=(Length(broken=True),))
    with pytest.raises(RequestError, match="no letters"):
        run(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_at_hand_already_is_said(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(experiment, tmp_path / "out")
    assert "made before" not in capsys.readouterr().err
    run(experiment, tmp_path / "out")
    assert capsys.readouterr().err == "made before: 8 of 8 texts\n"


def test_a_prompt_that_does_not_fit_is_named_by_its_row(experiment: Experiment) -> None:
    long = PromptRow(3, "", "a " * 1100)
    with pytest.raises(ContextOverflow, match="row 3 of the data: "):
        run(replace(experiment, prompts=(*experiment.prompts, long)))


def test_a_prompt_for_which_a_formula_says_nothing_is_named_by_its_row(
    experiment: Experiment,
) -> None:
    lines = (NamedFormula("both", "M.top_k(1) + a.top_k(1)"),)
    with pytest.raises(FormulaError, match="row 2 of the data: no token is allowed"):
        run(replace(experiment, lines=lines, terms={"a": "z z z q"}))


def test_what_means_nothing_is_refused_before_anything_is_loaded(experiment: Experiment) -> None:
    other: Sequence[tuple[dict[str, Any], str]] = (
        ({"lines": ()}, "an evaluation needs a formula"),
        ({"lines": (NamedFormula("", "M"),)}, "a name of its own, not ''"),
        ({"lines": (NamedFormula("x", "M - b"),)}, "formula 'x': unknown term 'b'"),
        ({"seed": -1}, "seed is a whole number from 0"),
        ({"model": "/no/where"}, "'/no/where'"),
    )
    for settings, words in other:
        with pytest.raises((FormulaError, RequestError, OSError), match=words):
            replace(experiment, **settings)


def test_a_few_texts_of_every_formula_come_first_and_all_are_made(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        evaluation, "announce", lambda _, texts, ask: announced.append((texts, ask))
    )
    prompts = tuple(PromptRow(row, "a", "a b") for row in range(16))
    many = replace(experiment, prompts=prompts, samples=1, stop=Stop(1))
    first = first_tasks([*many.tasks()])
    assert [(task.line.name, task.prompt.row) for task in first] == [
        ("M", 0),
        ("twice", 0),
        ("M", 1),
        ("twice", 1),
    ]
    assert len(run(many, ask=True).texts) == 32
    assert announced == [("28 texts", True)]
    assert first_tasks([*replace(many, prompts=prompts[:8]).tasks()]) == []


@pytest.mark.parametrize(
    ("seconds", "answer", "words"),
    [
        (59, None, ""),
        (90, None, "5 texts more take about 2 minutes\n"),
        (7000, True, "5 texts more take about 117 minutes\n"),
        (9000, False, "5 texts more take about 2 hours\n"),
    ],
)
def test_a_terminal_is_told_of_a_long_run_and_asked_before_a_very_long_one(
    seconds: float,
    answer: bool | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[str] = []

    def ask(question: str, **_: Any) -> bool | None:
        asked.append(question)
        return answer

    monkeypatch.setattr(estimate.Confirm, "ask", ask)
    estimate.announce(seconds, "5 texts", ask=True)  # no terminal: no question
    assert (capsys.readouterr().err, asked) == (words, [])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(estimate.Console, "is_terminal", True)
    estimate.announce(seconds, "5 texts", ask=False)
    assert asked == []
    if answer is False:
        with pytest.raises(RequestError, match="stopped: 5 texts more take about 2 hours; --n"):
            estimate.announce(seconds, "5 texts", ask=True)
    else:
        estimate.announce(seconds, "5 texts", ask=True)
    assert asked == ([] if answer is None else ["Go on?"])


def test_the_model_is_loaded_on_the_device_and_in_the_type_that_are_given(
    experiment: Experiment, tmp_path: Path
) -> None:
    half = replace(experiment, dtype="bfloat16")
    assert half.settings() == {**experiment.settings(), "dtype": "bfloat16"}
    assert replace(experiment, revision="v2").settings()["revision"] == "v2"
    for wrong in ({"dtype": "float99"}, {"device": "gpu0"}):
        with pytest.raises(ModelError, match=r"float99|gpu0"):
            run(replace(experiment, **wrong), tmp_path / next(iter(wrong)))
    assert len(run(replace(half, device="cpu"), tmp_path / "half").texts) == 8


def test_a_text_has_a_seed_of_its_own() -> None:
    seeds = {
        seed_of(seed, row, sample) for seed in (0, 1) for row in range(50) for sample in (0, 1)
    }
    assert len(seeds) == 200
    assert all(0 <= seed < 2**32 for seed in seeds)


@pytest.mark.parametrize("lines", [2, FEW + 1])
def test_bars_say_what_is_under_way_and_many_leave_when_they_are_full(lines: int) -> None:
    screen = io.StringIO()
    with Progress(console=Console(file=screen, force_terminal=True, width=120)) as shown:
        bars = Bars(shown, lines)
        bars.begin("M", 4, 2)
        bars.begin("toxicity", 4)
        bars.advance("M", 2)
        bars.advance("toxicity")
        visible = [task.visible for task in shown.tasks]
    assert visible == [lines <= FEW, True]
    assert "M " in screen.getvalue()
    assert "toxicity" in screen.getvalue()


def test_where_there_is_no_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as shown:
        Bars(shown, 1).begin("M", 1)
    assert capsys.readouterr().err == ""


def test_the_time_that_is_left_is_said_again_where_the_pace_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(estimate, "monotonic", lambda: now)
    pace = estimate.RemainingTime(seconds=400, count=400, window=10)  # a second a text, it was said
    said: list[tuple[int, float]] = []
    for left in range(399, -1, -1):
        now += 1.0 if left >= 300 else 4.0  # other work begins beside it
        if (seconds := pace.advance()) is not None:
            said.append((left, seconds))
    assert len(said) < 8
    assert all(seconds <= 4 * left for left, seconds in said)
    assert said[-1][0] > 250
    assert said[-1][1] > 0.6 * 4 * said[-1][0]
