"""Mistakes at the harness's command line: one sentence, and exit code 2."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager
from support.error_sentences import refusal
from typer.testing import CliRunner

from marith import Engine
from marith.cli import app
from marith.evals.harness import MarithLM
from marith.evals.harness.command_line import completed


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness without its own tasks, of which the list alone takes 13 s of a processor."""
    tasks = partial(TaskManager, include_defaults=False)
    monkeypatch.setattr("lm_eval.tasks.TaskManager", tasks)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"modle": "pocket"}, "MarithLM takes no 'modle'; did you mean 'model'?"),
        (
            {"model": "a", "pretrained": "b"},
            "model is 'a' and pretrained is 'b', which are two names of one argument",
        ),
        ({"trust_remote_code": True}, "'trust_remote_code'; marith never runs the code of a"),
        ({"max_length": 64}, "MarithLM takes no 'max_length'; write context_length=…"),
        ({"peft": "x"}, "MarithLM takes no 'peft'; write formula=prompted(adapter=…)"),
        (
            {"steer_path": "x"},
            "MarithLM takes no 'steer_path'; write formula=prompted(vectors={…})",
        ),
        ({"temperature": 1}, "MarithLM takes no 'temperature'; write --gen_kwargs temperature=…"),
        ({"persona": "x"}, "persona='x' needs a persona file: write file=PATH too"),
        ({"batch_size": "many"}, "batch_size is a whole number from 1 or 'auto', not 'many'"),
        ({"terms": {"x": "long " * 5000}, "formula": "x"}, "tokens, the context only"),
    ],
)
def test_arguments_of_the_model_are_refused_in_one_sentence(
    given: dict[str, Any], sentence: str
) -> None:
    model: Any = get_model("marith")
    assert sentence in refusal(lambda: model.create_from_arg_obj(given))


def test_pretrained_is_another_name_of_model() -> None:
    named = MarithLM(pretrained="pocket", context_length=64)
    assert named._contexts.engine is Engine.shared("pocket", context_length=64)


@pytest.mark.usefixtures("harness")
def test_an_unknown_task_says_where_the_tasks_are_listed() -> None:
    line = ["eval", "harness", "--tasks", "x", "--model_args", "pretrained=pocket"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 2
    assert "the harness has no task x; `marith eval harness ls tasks` lists the" in result.stderr


def test_marith_is_the_default_model_of_the_command() -> None:
    ours = ["--model", "marith", "--batch_size", "auto"]
    assert completed(["--tasks", "a"]) == ["run", "--tasks", "a", *ours]
    named = ["--model=hf", "-b", "4", "--tasks", "a"]
    assert completed(["run", *named]) == ["run", *named]
    assert completed(["ls", "tasks"]) == ["ls", "tasks"]
    assert completed(["run", "--config", "x.yaml"]) == ["run", "--config", "x.yaml"]
    refused = CliRunner().invoke(app, ["eval", "harness", "run", "--modell", "x", "--tasks", "a"])
    assert refused.exit_code == 2
