"""Mistakes at the harness's command line: one sentence, and exit code 2."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager
from support.mistakes import refusal
from typer.testing import CliRunner

from marith.cli import app
from marith.evals.harness import MarithLM


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness without its own tasks, of which the list alone takes 13 s of a processor."""
    tasks = partial(TaskManager, include_defaults=False)
    monkeypatch.setattr("lm_eval.tasks.TaskManager", tasks)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("modle=pocket", "MarithLM takes no 'modle'; did you mean 'model'?"),
        (
            "model=pocket,pretrained=pocket-draft",
            "pretrained is model, and has another value: 'pocket-draft'",
        ),
        (
            "pretrained=pocket,trust_remote_code=True",
            "MarithLM takes no 'trust_remote_code'; marith never runs the code of a checkpoint",
        ),
        ("pretrained=pocket,max_length=64", "MarithLM takes no 'max_length'; write "
         "context_length=…"),
        (
            "pretrained=pocket,dtype=fp16",
            "dtype is a floating-point type of torch, such as 'float32', 'bfloat16' or 'float16', "
            "not 'fp16'; write 'float16'",
        ),
        ("pretrained=poket", "there is no model 'poket'; did you mean 'pocket'?"),
    ],
)  # fmt: skip
def test_arguments_of_the_model_are_refused_in_one_sentence(given: str, sentence: str) -> None:
    model: Any = get_model("marith")
    assert refusal(lambda: model.create_from_arg_string(given)) == sentence


def test_the_harnesss_own_word_for_a_model_is_ours_too() -> None:
    named = MarithLM(pretrained="pocket", context_length=64)
    assert named._engine is MarithLM("pocket", context_length=64)._engine


@pytest.mark.usefixtures("harness")
def test_an_unknown_task_says_where_the_tasks_are_listed() -> None:
    line = ["eval", "harness", "--tasks", "x", "--model_args", "pretrained=pocket"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 2
    assert "the harness has no task x; `marith eval harness ls tasks` lists those" in result.stderr
