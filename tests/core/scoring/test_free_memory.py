"""What may still be taken of a machine's memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from marith.scoring import free_memory as module
from marith.scoring.free_memory import free_memory


def test_no_more_is_free_than_the_machine_has() -> None:
    assert 0 < free_memory("cpu") <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"memory.max": "3000000", "memory.current": "1000000"}, 2_000_000),
        ({"memory.max": "max", "memory.current": "1000000"}, None),
        ({"memory.max": "5", "memory.current": "9"}, 0),
        (
            {"memory/memory.limit_in_bytes": "70000", "memory/memory.usage_in_bytes": "30000"},
            40_000,
        ),
    ],
)
def test_what_a_container_may_take_bounds_it(
    files: dict[str, str], free: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(module, "_GROUPS", tmp_path)
    assert free_memory("cpu") == free or (free is None and free_memory("cpu") > 10**6)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_a_limit_of_addresses_bounds_it() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35));"
        "from marith.scoring.free_memory import free_memory; print(free_memory('cpu') < 2**35)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr
