"""Training: equal seeds give equal weights, a failure leaves nothing, bad input is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file

from marith.errors import ModelError, RequestError
from marith.training import Report, Settings, train
from marith.training.base import load
from marith.training.encoded_texts import encode
from marith.training.labelled_texts import LabelledText, Split

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module", params=["roberta", "gpt2"])
def unbroken(
    request: pytest.FixtureRequest, warmth: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Settings, Report]:
    """A finished training of each kind, with dropout, and its report."""
    base, out = request.getfixturevalue(request.param), tmp_path_factory.mktemp("out") / "judge"
    settings = Settings(base, warmth, out, epochs=8, rate=3e-3, batch_size=8, held_out=0.2)
    return settings, train(settings)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / WEIGHTS)


def test_equal_seeds_give_equal_weights(unbroken: tuple[Settings, Report], tmp_path: Path) -> None:
    settings, report = unbroken
    other = replace(settings, out=tmp_path / "judge")
    assert train(other) == replace(report, settings=other, seconds=mock.ANY)
    expected, found = weights(settings.out), weights(other.out)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_training_that_fails_while_saving_leaves_no_files(
    gpt2: str, warmth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(gpt2, warmth, tmp_path / "judge", epochs=1)
    monkeypatch.setattr(Report, "to_json", mock.Mock(side_effect=OSError("no space is left")))
    with pytest.raises(OSError, match="no space is left"):
        train(settings)
    assert [*settings.out.iterdir()] == []


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


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"device": "gpu0"}, "gpu0"),
        ({"base": "model.gguf"}, "name a checkpoint, not 'model.gguf'"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises((ModelError, RequestError), match=problem):
        Settings(**{"base": "pocket-toxicity", "data": Path(__file__), "out": Path("out"), **wrong})


def test_a_directory_with_other_things_in_it_is_left_alone(warmth: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("so")
    with pytest.raises(RequestError, match="is not empty; name another --out"):
        Settings("pocket-toxicity", warmth, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_texts_over_the_limit_are_counted_and_said(
    gpt2: str, warmth: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = train(Settings(gpt2, warmth, tmp_path / "out", epochs=1, max_length=4))
    assert report.cut == 128
    assert report.limit == 4
    said = "128 of 128 texts are longer than 4 tokens and are truncated"
    assert report.notices == (said,)
    assert said in capsys.readouterr().err
    assert [line.tokens for line in report.lines] == [1, 2, None]


def test_classes_are_numbered_as_the_head_numbers_them(warmth: Path, tmp_path: Path) -> None:
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


def test_number_labels_that_do_not_start_at_0_cause_a_warning(
    gpt2: str, warmth: Path, tmp_path: Path
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(warmth.read_text().replace('"cold"', "1").replace('"warm"', "2"))
    report = train(Settings(gpt2, data, tmp_path / "out", epochs=1))
    assert tuple(report.learned) == ("1", "2")
    assert "write label='1', in quotes" in report.notices[0]


def test_a_diverging_loss_is_reported_and_the_callers_random_state_is_kept(
    gpt2: str, warmth: Path, tmp_path: Path
) -> None:
    before = torch.get_rng_state()
    with pytest.raises(ModelError, match=r"the loss is nan at step \d+: the rate 1e\+30 is too"):
        train(Settings(gpt2, warmth, tmp_path / "out", rate=1e30))
    assert torch.equal(torch.get_rng_state(), before)


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
