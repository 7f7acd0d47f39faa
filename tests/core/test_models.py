"""Which models are on this machine, as their files say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from marith import models
from marith.models import numbers_by_type
from marith.scoring.weights.locate import WEIGHTS

POCKET = WEIGHTS / "pocket"
GB = 1_000_000_000


def test_a_larger_memory_holds_more_lanes_in_each_way() -> None:
    pocket = models.describe("pocket")
    few, many = pocket.ways(GB), pocket.ways(2 * GB)
    assert [option for option, _, _ in few] == ["dtype='float32'", "dtype='bfloat16'"]
    assert few[0][1] == pocket.memory("float32")
    lanes = [
        int(re.findall(r"and ([\d,]+) lanes", ways[0][2])[0].replace(",", ""))
        for ways in (few, many)
    ]
    assert lanes[0] < lanes[1]


def test_weights_are_counted_by_the_header_of_their_file() -> None:
    import safetensors

    with safetensors.safe_open(POCKET / "model.safetensors", "pt") as stored:
        count = sum(stored.get_tensor(key).numel() for key in stored.keys())  # noqa: SIM118
    assert sum(numbers_by_type(POCKET / "model.safetensors").values()) == count


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, b"\x02\0\0\0\0\0\0\0[]", b"\x09" + b"\0" * 7])
def test_a_file_that_is_none_of_safetensors_has_no_count(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(data)
    assert numbers_by_type(file) == {}


def test_models_are_at_the_front_door() -> None:
    code = "import marith; print(marith.models.describe('pocket').name)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "pocket"
