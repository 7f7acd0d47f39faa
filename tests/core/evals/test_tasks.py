"""The paper's tasks in Inspect AI, their data, and the scorers of texts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, task_with
from inspect_ai import eval as evaluate
from inspect_ai.log import EvalLog, resolve_sample_attachments
from inspect_ai.model import get_model

from marith import Engine, RequestError
from marith.evals import scorers, tasks
from marith.evals.pocket_texts import QUESTIONS
from marith.evals.system_prompts import paper_terms
from marith.evals.tasks import prompts
from marith.formula.text.term_data import terms_as_data
from marith.models import attribute


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., EvalLog]:
    def run(task: Task, formula: str = "M", terms: Any = None, **options: Any) -> EvalLog:
        arguments: Any = {"formula": formula, "terms": terms or {}}
        model = get_model("marith/pocket", memoize=False, **arguments)
        (log,) = evaluate(
            task_with(task, model=model), log_dir=str(tmp_path), display="none", **options
        )
        assert log.status == "success", log.error
        return log

    return run


def values(log: EvalLog, name: str) -> list[float]:
    return [sample.scores[name].value for sample in log.samples or []]  # type: ignore[index,misc]


def test_toxicity_is_scored_by_the_judge_and_by_the_bare_model(run: Any) -> None:
    terms = paper_terms("toxicity")
    log = run(tasks.toxicity(n=4), "M - 0.6*toxic", terms_as_data(terms))
    texts = [sample.output.completion for sample in log.samples]
    assert values(log, "classifier") == pytest.approx(
        attribute(texts, "pocket-toxicity", "toxic"), abs=1e-4
    )
    with Engine.load("pocket") as engine:
        for sample, scored in zip(log.samples, values(log, "perplexity"), strict=True):
            (tokens,) = sample.output.metadata["tokens"]
            logprobs = engine.score(sample.input, tokens, "M", terms)
            assert scored == pytest.approx(math.exp(-sum(logprobs) / len(logprobs)), rel=1e-3)


def test_a_review_is_continued_from_its_first_tokens(run: Any) -> None:
    log = run(tasks.sentiment(to="positive", n=2), terms={}, max_tokens=4)
    with Engine.load("pocket") as engine:
        for sample in log.samples:
            asked = next(one.text for one in sample.messages if one.role == "user")
            assert asked == engine.decode(engine.encode(str(sample.input))[: tasks.BEGINNING])


def test_prompts_of_a_file_are_drawn_by_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    rows = [{"prompt": {"text": f"text {i}"}, "label": i % 2} for i in range(20)]
    file.write_text("\n".join(map(json.dumps, rows)))
    few, many = (prompts(QUESTIONS, str(file), n=n) for n in (3, 10))
    assert many[:3] == few
    assert prompts(QUESTIONS, str(file), n=3, seed=1) != few
    number: Any = 1
    for label in ("1", number):
        odd = prompts(QUESTIONS, str(file), "prompt.text", {"label": label})
        assert sorted(row for row, _ in odd) == list(range(1, 20, 2))
    table = tmp_path / "data.csv"
    table.write_text("message,tone\nHello,kind\nGo away,rude\n")
    assert prompts(QUESTIONS, str(table), where={"tone": "rude"}) == [(1, "Go away")]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"data": "nowhere.jsonl"}, "there is no file 'nowhere.jsonl'"),
        ({"n": 10_000}, "pocket's set of questions has 1000 texts, not 10000: write n=1000"),
    ],
)
def test_data_that_cannot_be_read_is_refused(asked: Any, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        prompts(QUESTIONS, **asked)


def test_every_measure_has_a_name(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "my_measures.py").write_text("def words(text):\n    return len(text.split())\n")
    monkeypatch.chdir(tmp_path)
    names = ["my_measures:words", "length", "vader:positive", "pocket-formality:formal"]
    log = run(tasks.texts(measures=names, n=3), max_tokens=8)
    texts = [sample.output.completion for sample in log.samples]
    assert values(log, "function") == [len(text.split()) for text in texts]
    assert all(0 <= value <= 1 for value in values(log, "classifier"))
    assert list(log.samples[0].scores) == [
        "function", "length", "vader", "classifier", "perplexity",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "problem"),
    [
        ("loudness", "a measure is MODEL:LABEL, perplexity"),
        ("vader:angry", "vader's tone is 'positive' or 'negative', not 'angry'"),
        ("math:nothing", "the module 'math' has no function 'nothing'"),
        ("pocket-toxicity:loud", "loud"),
    ],
)
def test_an_unknown_measure_is_refused(measure: str, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        scorers.named(measure)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"n": 0}, "n is a whole number from 1, not 0"),
        ({"where": {"label": "1"}}, "where={'label': '1'} needs data: write data=FILE too"),
    ],
)
def test_invalid_settings_are_refused(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        prompts(QUESTIONS, **asked)


def test_a_task_is_evaluated_twice_in_one_process(run: Any) -> None:
    task = tasks.toxicity(n=2)
    first, again = (values(run(task, max_tokens=6), "classifier") for _ in range(2))
    assert first == pytest.approx(again, abs=1e-4)


def test_a_judge_needs_a_criterion() -> None:
    with pytest.raises(
        RequestError, match="judge:PROVIDER/MODEL=CRITERION, not 'judge:mockllm/model='"
    ):
        scorers.named("judge:mockllm/model")


def test_a_judge_grades_by_its_criterion(run: Any) -> None:
    measures = {"polite": "judge:marith/pocket=is polite"}
    log = run(tasks.texts(measures=measures, n=1), max_tokens=4)
    sample = resolve_sample_attachments(log.samples[0], "full")
    _, grading = [event.input[-1].text for event in sample.events if event.event == "model"]
    assert "is polite" in grading
    assert log.samples[0].output.completion in grading
