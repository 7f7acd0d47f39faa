"""A model of two processes answers as it does in one; where one of them dies, it says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marith import Engine, ModelError
from marith.scoring.checkpoints.locate import WEIGHTS

APPLICATION = Path(__file__).parents[3] / "support" / "two_processes.py"
TOLERANCE = 1e-5


def started(rank: int, port: int, model: Path) -> subprocess.Popen[str]:
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(APPLICATION), str(model)],
        env={**os.environ, **place, **meeting},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("parallel") / "model"
    for name in ("model", "model-for-one"):
        shutil.copytree(WEIGHTS / "pocket", home.with_name(name))
    return home


@pytest.fixture(scope="module")
def said(model: Path) -> Iterator[list[dict[str, Any]]]:
    """What the first process printed; the second one was killed while a text streamed."""
    port = 20_000 + os.getpid() % 20_000  # tests open no sockets, so it cannot be asked for
    first, second = (started(rank, port, model) for rank in range(2))
    lines: list[dict[str, Any]] = []
    late = threading.Timer(120, first.kill)
    late.start()
    try:
        assert first.stdout is not None
        for line in first.stdout:
            lines.append(json.loads(line))
            if "now" in lines[-1]:
                second.kill()
        printed = first.communicate(timeout=60)[1]
        assert first.returncode == 0, printed[-2000:]
        assert not second.communicate()[0], "the second process ran on"
        yield lines
    finally:
        late.cancel()
        for process in (first, second):
            process.kill()
            process.communicate()


def test_log_probabilities_are_those_of_one_process(said: list[dict[str, Any]]) -> None:
    differ = [line for line in said if "differ" in line]
    assert len(differ) == 16
    # The model's own, and those of formulas as far as they enlarge its rounding.
    assert max(line["differ"] / line["enlarged"] for line in differ) <= TOLERANCE


def test_texts_are_those_of_one_process_streamed_and_drafted(said: list[dict[str, Any]]) -> None:
    texts = [line for line in said if "text" in line]
    assert len(texts) == 3
    assert all(line["text"] == line["wanted"] for line in texts)
    assert texts[-1]["chunks"] > 1


def test_an_adapter_is_refused(said: list[dict[str, Any]]) -> None:
    [line] = [line for line in said if "adapter" in line]
    assert line["adapter"].startswith("ModelError: device='tp' computes a model without adapters")


@pytest.mark.parametrize("whose", ["streaming", "after"])
def test_a_killed_process_is_an_error_for_who_waits_and_who_comes_after(
    said: list[dict[str, Any]], whose: str
) -> None:
    [line] = [line for line in said if whose in line]
    assert line[whose].startswith("ModelError: the model that 2 processes compute is lost")
    assert said[-1]["seconds"] < 20


def test_torchrun_starts_an_application_that_loads_again_and_ends(model: Path) -> None:
    torchrun = "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"
    port = str(40_000 + os.getpid() % 20_000)
    ended = subprocess.run(
        [sys.executable, *torchrun, port, str(APPLICATION), str(model), "end"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    texts = [line["again"] for line in lines if "again" in line]
    assert len(texts) == 3
    assert len(set(texts)) == 1
    assert "could not be loaded by the process of rank 1, of 2" in lines[-1]["apart"]
    assert "process of rank 1: no memory for it here" in ended.stderr


def test_without_torchrun_it_says_what_to_write() -> None:
    with pytest.raises(ModelError, match=r"torchrun --nproc-per-node 2 application\.py"):
        Engine.load("pocket", device="tp")


@pytest.mark.parametrize("option", [{"quantize": "int8"}, {"backend": "llama.cpp"}])
def test_few_bits_and_backends_are_refused(option: dict[str, str]) -> None:
    with pytest.raises(ModelError, match=r"leave out (quantize|backend) or device='tp'"):
        Engine.load("pocket", device="tp", **option)  # type: ignore[arg-type]
