"""Which models are on this machine, as their files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from marith import models
from marith.models import count_weights
from marith.scoring.weights.locate import WEIGHTS

POCKET = WEIGHTS / "pocket"
GB = 1_000_000_000


def test_a_larger_memory_holds_more_lanes_in_each_way() -> None:
    pocket = models.describe("pocket")
    few, many = pocket.ways(GB), pocket.ways(2 * GB)
    assert [way.option for way in few] == ["dtype='float32'", "dtype='bfloat16'"]
    assert few[0].nbytes == pocket.memory("float32")
    assert all((one.lanes or 0) < (two.lanes or 0) for one, two in zip(few, many, strict=True))


def test_weights_are_counted_by_the_header_of_their_file() -> None:
    import safetensors

    with safetensors.safe_open(POCKET / "model.safetensors", "pt") as stored:
        count = sum(stored.get_tensor(key).numel() for key in stored.keys())  # noqa: SIM118
    assert count_weights(POCKET / "model.safetensors") == count


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, b"\x02\0\0\0\0\0\0\0[]", b"\x09" + b"\0" * 7])
def test_a_file_that_is_none_of_safetensors_has_no_count(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(data)
    assert count_weights(file) is None


def test_models_are_at_the_front_door() -> None:
    code = "import marith; print(marith.models.describe('pocket').name)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "pocket"
