"""Texts by actors: what one does and takes, and what is refused; `make ray` has a cluster."""

from __future__ import annotations

import pickle
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from marith.cli import app
from marith.errors import MarithError, RequestError
from marith.evals.experiment.evaluation import run
from marith.evals.experiment.experiment import Experiment
from marith.evals.experiment.ray_actors import (
    TextActor,
    needs_of,
    own_modules,
    waiting_notes,
)
from marith.evals.experiment.texts import NamedFormula, PromptRow
from marith.formula.text.calls import CALLS, define
from marith.formula.tree.nodes import Formula
from marith.request.stop import Stop

EXPERIMENT = Experiment(
    "texts",
    "pocket",
    (NamedFormula("M", "M"), NamedFormula("kind", "M + 0.5*kind")),
    {"kind": "You are kind."},
    (PromptRow(0, "Hello!", "Hello!"), PromptRow(7, "The sea?", "The sea?")),
    stop=Stop(8),
)


def sent(experiment: Experiment) -> Experiment:
    """An experiment as it reaches another process."""
    there = pickle.loads(pickle.dumps(experiment))
    assert isinstance(there, Experiment)
    return there


def test_an_actor_makes_the_texts_of_the_experiment() -> None:
    texts = run(EXPERIMENT).texts
    actor = TextActor(sent(replace(EXPERIMENT, ray=2)), [], [])
    made = [pickle.loads(pickle.dumps(actor.text(task))) for task in EXPERIMENT.tasks()]
    assert [replace(text, calls=0) for text in made] == [replace(text, calls=0) for text in texts]


def test_what_an_actor_lacks_is_an_error_of_each_text(tmp_path: Path) -> None:
    (tmp_path / "defines_nothing_here.py").write_text("LOADED = True\n", encoding="utf-8")
    task = next(EXPERIMENT.tasks())
    actor = TextActor(EXPERIMENT, ["defines_nothing_here", "no_such_module"], [str(tmp_path)])
    for _ in range(2):
        with pytest.raises(MarithError, match="No module named 'no_such_module'"):
            actor.text(task)
    gone = replace(EXPERIMENT, terms={"kind": {"formula": 'prompted(model="/no/such/model")'}})
    with pytest.raises(MarithError, match="/no/such/model") as failure:
        TextActor(gone, [], []).text([*gone.tasks()][-1])
    there = pickle.loads(pickle.dumps(failure.value))
    assert (type(there), str(there)) == (type(failure.value), str(failure.value))


@pytest.mark.parametrize(
    ("resources", "device", "needs"),
    [
        ({"CPU": 8.0}, None, {"num_cpus": 1}),
        ({"CPU": 8.0, "GPU": 2.0}, None, {"num_gpus": 1}),
        ({"CPU": 8.0, "GPU": 2.0}, "cuda", {"num_gpus": 1}),
        ({"CPU": 8.0, "GPU": 2.0}, "cpu", {"num_cpus": 1}),
    ],
)
def test_an_actor_takes_a_gpu_or_a_core(
    resources: dict[str, float], device: str | None, needs: dict[str, float]
) -> None:
    assert needs_of(resources, 2, device) == needs


FEW = [({"CPU": 2.0}, "2 cores"), ({"CPU": 9.0, "GPU": 1.0}, "1 GPU"), ({}, "0 cores")]


@pytest.mark.parametrize(("resources", "words"), FEW)
def test_more_actors_than_places_are_refused(resources: dict[str, float], words: str) -> None:
    with pytest.raises(RequestError, match=f"the cluster has {words}, and --ray asks for 3"):
        needs_of(resources, 3, None)


@pytest.mark.parametrize(
    ("free", "needs", "note"),
    [
        ({"CPU": 1.0, "GPU": 9.0}, {"num_cpus": 1}, "1 core of the cluster is free now"),
        ({"CPU": 9.0}, {"num_gpus": 1}, "0 GPUs of the cluster are free now"),
    ],
)
def test_actors_that_wait_are_named(
    free: dict[str, float], needs: dict[str, float], note: str
) -> None:
    assert waiting_notes(free, 3, needs) == [
        f"{note}: the texts begin once each of 3 actors has one"
    ]
    assert waiting_notes({"CPU": 3.0, "GPU": 3.0}, 3, needs) == []


def thrice(term: Formula) -> Formula:
    return 3 * term


@patch.dict(CALLS)
def test_modules_of_the_users_own_are_named_and_marith_is_not() -> None:
    before = own_modules()
    define("thrice", thrice)
    assert {*own_modules()} - {*before} == {__name__}
    assert not [name for name in before if name.startswith("marith")]


COMMANDS = (
    "texts --measure length", "toxicity", "sentiment --to positive", "examples", "attributes",
)  # fmt: skip


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
@pytest.mark.parametrize("command", COMMANDS)
def test_without_ray_one_sentence_names_the_extra(command: str, tmp_path: Path) -> None:
    words = ["eval", *command.split(), "--ray", "2", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert result.output == "marith: a cluster needs Ray: pip install 'marith[ray]'\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", ["0", "-1", "10001"])
def test_a_number_of_actors_is_a_whole_number_from_1(count: str) -> None:
    result = CliRunner().invoke(app, ["eval", "examples", "--ray", count])
    assert result.exit_code == 2
    assert f"ray is a whole number from 1 to 10000, not {count}" in result.output


OTHERS = ("eval perplexity", "eval speed", "eval judge", "tune")


@pytest.mark.parametrize("command", OTHERS)
def test_commands_that_make_no_such_texts_have_no_actors(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--ray", "2"])
    assert result.exit_code == 2
    assert "No such option: --ray" in result.output
