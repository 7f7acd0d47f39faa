"""Which models are on this machine, as their files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from marith.models import numbers_by_type
from marith.scoring.weights.locate import WEIGHTS

POCKET = WEIGHTS / "pocket"


def test_weights_are_counted_by_the_header_of_their_file() -> None:
    import safetensors

    with safetensors.safe_open(POCKET / "model.safetensors", "pt") as stored:
        count = sum(stored.get_tensor(key).numel() for key in stored.keys())  # noqa: SIM118
    assert sum(numbers_by_type(POCKET / "model.safetensors").values()) == count


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, b"\x02\0\0\0\0\0\0\0[]", b"\x09" + b"\0" * 7])
def test_a_file_that_is_not_safetensors_has_no_count(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(data)
    assert numbers_by_type(file) == {}


def test_models_are_exported_by_the_package() -> None:
    code = "import marith; print(marith.models.describe('pocket').name)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "pocket"
