"""Where a model runs, in which type and revision, in every command that loads one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from marith import Engine, ModelError
from marith.cli import app
from marith.scoring.weights.locate import WEIGHTS

REVISION = "b" * 40


@pytest.mark.parametrize(
    "arguments",
    [
        ("calibrate", "M", "--prompt", "Hi"),
        ("eval", "perplexity"),
    ],
)  # fmt: skip
def test_an_absent_device_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*arguments, "--device", "teapot"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "teapot" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("calibrate", "M", "--prompt", "Hi"),
        ("tune", "M - a*k", "--range", "a=0:0.5", "--term", "k=Be rude.", "--direction", "up",
         "--attribute", "vader:positive"),
        ("eval", "texts", "--measure", "vader:positive"),
        ("eval", "toxicity"),
        ("eval", "attributes", "--curve", "1"),
        ("eval", "perplexity"),
    ],
)  # fmt: skip
def test_a_backend_reaches_the_model_that_is_loaded(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*arguments, "--backend", "llama.cpp"])
    assert done.exit_code == 2
    assert "llama.cpp" in done.stderr
    unknown = CliRunner().invoke(app, [*arguments, "--backend", "teapot"])
    assert unknown.exit_code == 2
    assert "teapot" in unknown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "Hi"),
        ("why", "Hi"),
        ("chat",),
        ("calibrate", "M", "--prompt", "Hi"),
        ("tune", "M - a*k", "--range", "a=0:0.5", "--term", "k=Be rude.", "--direction", "up",
         "--attribute", "vader:positive", "--perplexity-limit", "100"),
        ("eval", "texts", "--measure", "length"),
        ("eval", "toxicity"),
        ("eval", "sentiment", "--to", "positive"),
        ("eval", "attributes", "--curve", "1"),
        ("eval", "perplexity"),
    ],
)  # fmt: skip
def test_every_command_that_loads_an_engine_may_load_it_over_bytes(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shared(_: str, over: str, **__: Any) -> NoReturn:
        raise ModelError(f"it would be over {over}")

    monkeypatch.setattr(Engine, "shared", shared)
    for options, said in (
        ((), "it would be over tokens"),
        (("--over", "bytes"), "it would be over bytes"),
        (("--over", "letters"), "over must be 'tokens' or 'bytes', not 'letters'"),
    ):
        done = CliRunner().invoke(app, [*arguments, *options])
        assert done.exit_code == 2
        assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["serve", "play"])
def test_a_server_refuses_an_absent_device_before_it_listens(command: str) -> None:
    for option in ("--device", "--over"):
        done = CliRunner().invoke(app, [command, option, "teapot"])
        assert done.exit_code == 2
        assert "not 'teapot'" in done.stderr.splitlines()[-1]


def test_a_revision_applies_to_the_tokenizer_and_to_the_model(tmp_path: Path) -> None:
    repository = tmp_path / "models--someone--pocket"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "tried").write_text(REVISION, encoding="utf-8")
    shutil.copytree(WEIGHTS / "pocket", repository / "snapshots" / REVISION)
    reviews = tmp_path / "reviews.csv"
    reviews.write_text("text\nA film that I liked since it is about bees.\n", encoding="utf-8")
    asked = ("eval", "sentiment", "--to", "positive", "--judge", "vader:positive", "--data",
             str(reviews), "--formulas", "M", "--max-tokens", "3",
             "--model", "someone/pocket")  # fmt: skip
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    for revision, code in (("tried", 0), ("main", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "marith", *asked, "--revision", revision],
            capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert ("sentiment" in done.stdout) == (code == 0), done.stdout
