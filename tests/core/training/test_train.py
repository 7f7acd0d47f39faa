"""Training: what was broken off ends as if it had not been, and what cannot be is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.vocabularies import byte_tokenizer

from benchmarks.gguf_file import write_gguf
from marith import Classifier, Engine
from marith.errors import ModelError, RequestError
from marith.testing import tiny_model
from marith.training import Report, Settings, train
from marith.training.base import load
from marith.training.encoded_texts import encode
from marith.training.labelled_texts import LabelledText, Split
from marith.training.optimisation import Optimisation

WEIGHTS = "model.safetensors"


class Killed(BaseException):
    """As a process ends: nothing of ours catches it."""


@contextmanager
def watched(kill_at: int | None = None) -> Iterator[list[int]]:
    """Record the number of each step that is taken, and kill the training after `kill_at` steps."""
    take, taken = Optimisation.take, list[int]()

    def taking(self: Optimisation, step: int, batch: Any) -> float:
        if step == kill_at:
            raise Killed
        taken.append(step + 1)
        return take(self, step, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Optimisation, "take", taking)
        yield taken


@pytest.fixture(scope="module", params=["roberta", "gpt2"])
def unbroken(
    request: pytest.FixtureRequest, warmth: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Settings, Report]:
    """A finished training of each kind, with dropout, and its report."""
    base, out = request.getfixturevalue(request.param), tmp_path_factory.mktemp("out") / "judge"
    settings = Settings(
        base, warmth, out, epochs=8, rate=3e-3, batch_size=8, held_out=0.2, save_every=20
    )
    return settings, train(settings)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / WEIGHTS)


def test_a_training_that_was_broken_off_ends_with_the_same_weights(
    unbroken: tuple[Settings, Report], tmp_path: Path
) -> None:
    settings, whole = unbroken
    broken = replace(settings, out=tmp_path / "judge")
    for at in (3, 50):  # before the first checkpoint, and between two
        with watched(at), pytest.raises(Killed):
            train(broken)
    [checkpoint] = (broken.out / "training").iterdir()
    kept = {path.name for path in checkpoint.iterdir()}
    assert kept == {"weights.safetensors", "optimiser.safetensors", "progress.json"}
    assert json.loads((checkpoint / "progress.json").read_text())["step"] == 40
    (broken.out / "training" / "saving").mkdir()  # as a kill in the middle of saving leaves it
    with watched() as taken:
        found = train(broken)
    assert taken == [*range(41, whole.steps + 1)]
    assert found == replace(whole, seconds=found.seconds)
    expected = weights(settings.out)
    assert {name: torch.equal(w, expected[name]) for name, w in weights(broken.out).items()} == (
        dict.fromkeys(expected, True)
    )
    assert not (broken.out / "training").exists()


def test_a_classifier_learns_what_prefixes_show(unbroken: tuple[Settings, Report]) -> None:
    settings, report = unbroken
    assert report.every_prefix is ("gpt2" in settings.base)
    assert tuple(report.learned) == ("cold", "warm")
    assert sum(report.learned.values()) + sum(report.held_out.values()) == 128
    assert report.epoch_size == 2 * min(report.learned.values())
    assert report.steps == 8 * -(-report.epoch_size // 8)
    first, whole = report.lines[0], report.lines[-1]
    assert (first.tokens, whole.tokens) == (1, None)
    assert first.auc < 0.7  # the sentence has not come to its verb
    assert min(whole.accuracy, whole.auc) >= 0.95
    assert whole.log_loss < first.log_loss
    config = json.loads((settings.out / "config.json").read_text())
    assert config["id2label"] == {"0": "cold", "1": "warm"}


def test_what_is_finished_is_reported_at_once(unbroken: tuple[Settings, Report]) -> None:
    settings, report = unbroken
    again = replace(settings, save_every=1, device="cpu")  # where and how often may change
    with watched() as taken:
        assert train(again) == report
    assert taken == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"rate": 1e-3}, "has rate 0.003, not 0.001"),
        ({"base": "pocket"}, "has base '"),
    ],
)
def test_another_training_in_the_same_directory_is_refused_and_the_difference_named(
    changed: dict[str, Any], problem: str, unbroken: tuple[Settings, Report], tmp_path: Path
) -> None:
    settings, _ = unbroken
    with pytest.raises(RequestError) as caught:
        train(replace(settings, **changed))
    assert f"the training in {str(settings.out)!r} {problem}" in str(caught.value)


def test_other_data_under_the_same_name_are_refused_while_the_training_runs(
    gpt2: str, warmth: Path, tmp_path: Path
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_bytes(warmth.read_bytes())
    settings = Settings(gpt2, data, tmp_path / "out", save_every=1)
    with watched(2), pytest.raises(Killed):
        train(settings)
    data.write_text(data.read_text().replace("today", "tomorrow"))
    with pytest.raises(RequestError, match="was of other data than is in this file now"):
        train(settings)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"device": "gpu0"}, "gpu0"),
    ],
)
def test_settings_with_a_wrong_value_are_not_made(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises((ModelError, RequestError), match=problem):
        Settings("pocket-toxicity", Path(__file__), Path("out"), **wrong)


def test_a_directory_with_other_things_in_it_is_left_alone(warmth: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("so")
    with pytest.raises(RequestError, match="is not empty, and what it holds is no training"):
        train(Settings("pocket-toxicity", warmth, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_texts_over_the_limit_are_counted_and_said(
    gpt2: str, warmth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = train(Settings(gpt2, warmth, tmp_path / "out", epochs=1, max_length=4))
    assert report.cut == 128
    assert report.limit == 4
    said = "128 of 128 texts are longer than 4 tokens and are read so far"
    assert report.notices == (said,)
    assert said in capsys.readouterr().err
    assert [line.tokens for line in report.lines] == [1, 2, None]


def test_labels_are_the_classes_that_the_head_says_they_are(warmth: Path, tmp_path: Path) -> None:
    settings = Settings("pocket-toxicity", warmth, tmp_path / "out")
    labels = ("Toxic", "civil")  # in the order of the data, which is not that of the head
    base = load(settings, labels, torch.device("cpu"))
    rows = (
        LabelledText("you fool", "Toxic", "line 1"),
        LabelledText("thank you", "civil", "line 2"),
    )
    read = encode(base, labels, Split(rows, rows), warmth)
    assert read.learned.classes == read.held_out.classes == (1, 0)
    assert read.learned.counts(base.head.names) == {"civil": 1, "toxic": 1}


def test_numbers_that_are_not_counted_from_nothing_bring_a_word_of_warning(
    gpt2: str, warmth: Path, tmp_path: Path
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(warmth.read_text().replace('"cold"', "1").replace('"warm"', "2"))
    report = train(Settings(gpt2, data, tmp_path / "out", epochs=1))
    assert tuple(report.learned) == ("1", "2")
    assert "write label='1', in quotes" in report.notices[0]


def test_a_rate_that_blows_up_is_said_and_the_random_numbers_stay_the_callers(
    gpt2: str, warmth: Path, tmp_path: Path
) -> None:
    before = torch.get_rng_state()
    with pytest.raises(ModelError, match=r"the loss is nan at step \d+: the rate 1e\+30 is too"):
        train(Settings(gpt2, warmth, tmp_path / "out", rate=1e30))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_language_model_in_a_gguf_file_is_a_base(warmth: Path, tmp_path: Path) -> None:
    """Its weights are those of the checkpoint that it was written from, under a new head."""
    model, tokenizer = tiny_model(vocab=257), byte_tokenizer()
    write_gguf(model, tmp_path / "it.gguf", "f32", tokenizer)
    settings = Settings(str(tmp_path / "it.gguf"), warmth, tmp_path / "judge", epochs=1)
    base = load(settings, ["cold", "warm"], torch.device("cpu"))
    for name, weight in model.base_model.state_dict().items():
        assert torch.equal(base.model.base_model.state_dict()[name], weight), name
    report = train(settings)
    assert report.steps
    assert (settings.out / "tokenizer.json").is_file()
    with Engine.load("pocket") as engine:
        terms = {"C": Classifier(str(settings.out), label="warm")}
        assert engine.generate("Hello", "M + C", terms, max_tokens=2).tokens


def test_a_small_base_has_a_rate_by_which_it_learns(
    roberta: str, warmth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal progress is lines, and not a silence until the end."""
    settings = Settings(roberta, warmth, tmp_path / "judge", epochs=2, batch_size=8)
    report = train(settings)
    err = capsys.readouterr().err
    assert "the rate is 0.0003, by the size of the base" in err
    assert f"step 1 of {report.steps}, loss" in err
    assert f"step {report.steps} of {report.steps}, loss" in err
