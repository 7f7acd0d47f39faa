"""What is wrong in a command, and the sentence that ends it with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mistakes import commanded, table

from marith import Engine
from marith.evals import text_evaluation, toxicity  # noqa: F401  # imports are not timed
from marith.evals.paper import steering_evaluation
from marith.evals.paper.toxicity import GOAL, ToxicitySettings
from marith.evals.tuning import search, tune  # noqa: F401
from marith.scoring.checkpoints import hub_lookup, loader
from marith.scoring.checkpoints.loader import Placement
from marith.training import train  # noqa: F401

GENERATE = [
    (
        "marith generate hi --formula 2chef --term chef=Cook.",
        "not a formula: an operator is missing; write 2*chef",
    ),
    ("marith generate hi --term chef:Cook", "--term is NAME=PROMPT, not 'chef:Cook'"),
    (
        "marith generate hi --persona cheerful",
        "--persona 'cheerful' is a formula of a file; give its --file too",
    ),
]
FORMULAS = [
    (
        "marith show 'M^2'",
        "this has no meaning in a formula; there are no powers: in a sum write 2*M",
    ),
    (
        "marith show other --file marith.toml",
        "'marith.toml' has no formula and no term 'other'; its formulas are plain, cheerful",
    ),
]
EVALUATIONS = [
    (
        "marith eval toxicity --n 100000",
        '"pocket\'s own hostile messages" has 1000 texts, not 100000',
    ),
    (
        "marith eval texts --measure pocket-toxicity:toxc --direction up",
        "'pocket-toxicity' has no label 'toxc'; it has civil, toxic",
    ),
    (
        "marith eval sentiment --to happy",
        "a tone is one of negative, positive, not 'happy'",
    ),
    (
        "marith tune 'a*M' --range a=0-1 --attribute pocket-toxicity:toxic --direction down",
        "a range is NAME=LOW:HIGH, not 'a=0-1'",
    ),
]
# What typer itself refuses, after a line of usage.
USAGE = [
    ("marith genrate hi", "No such command 'genrate'. Did you mean 'generate'?"),
    ("marith eval toxicty", "No such command 'toxicty'. Did you mean 'toxicity'?"),
    (
        "marith generate hi --temprature 1",
        "No such option: --temprature (Possible options: --import, --temperature)",
    ),
    ("marith generate", "Missing argument 'PROMPT'."),
]
NAMED = "--term NAME=PROMPT defines one"


@pytest.fixture(scope="module")
def held() -> object:
    """What commands load, loaded: it stays for as long as someone holds it."""
    return Engine.shared("pocket"), loader.classifier("pocket-toxicity", Placement())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("marith.toml").write_text("[formulas]\nplain = 'M'\ncheerful = '2*M'", encoding="utf-8")


@table([*GENERATE, *FORMULAS, *EVALUATIONS])
@pytest.mark.usefixtures("held")
def test_it_ends_with_one_sentence_and_exit_code_2(typed: str, sentence: str) -> None:
    code, out, err = commanded(typed)
    assert (code, out) == (2, "")
    said, *quoted = err.removesuffix("\n").split("\n")
    assert said == f"marith: {sentence}"
    assert len(quoted) in (0, 2)


@table(USAGE)
def test_an_unknown_command_or_option_is_answered_by_what_was_meant(
    typed: str, sentence: str
) -> None:
    code, out, err = commanded(typed)
    assert (code, out) == (2, "")
    assert err.endswith(f"Error: {sentence}\n")


@table([
    ("marith show 'union(a, b)'", f"not defined: a, b (shown as system prompts); {NAMED}"),
    ("marith show 'M - C'", f"not defined: C (shown as a classifier); {NAMED}"),
    ("marith show '2*M'", ""),
    ("marith show '2*M - a' --term a=Cook.", ""),
])  # fmt: skip
def test_a_formula_is_shown_without_terms_and_its_names_are_listed(
    typed: str, sentence: str
) -> None:
    code, out, err = commanded(typed)
    assert (code, err.rstrip("\n")) == (0, sentence)
    assert "total weight" in out


@pytest.mark.usefixtures("held")
def test_half_an_answer_is_no_answer() -> None:
    line = "marith generate 'Tell me a story.' --max-tokens 400 --timeout 0.01"
    assert commanded(line) == (124, "", "marith: not finished within 0.01 seconds\n")


def test_an_interrupted_search_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune.TrialRunner, "figures", interrupted)
    line = "marith tune 'a*M' --range a=1:2 --attribute pocket-toxicity:toxic --direction down"
    code, out, err = commanded(f"{line} --n 1")
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_where_the_hub_cannot_be_reached_it_is_asked_once_and_pockets_classifier_judges(
    tiny_dir: str, held: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    class Unreachable:
        def model_info(self, name: str, revision: str | None, timeout: float) -> None:
            asked.append(timeout)
            raise ConnectionError("no route to the hub")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub_lookup, "HfApi", Unreachable)
    settings = ToxicitySettings(model=tiny_dir, n=1)
    metric, (note,) = steering_evaluation.attribute_metric(settings, GOAL)
    assert asked == [hub_lookup.SECONDS]
    assert metric.described()["model"] == "pocket-toxicity"
    assert note == (
        "pocket-toxicity (toxic) judges; it was trained on pocket's texts alone: "
        "s-nlp/roberta_toxicity_classifier cannot be had; --judge names another"
    )
