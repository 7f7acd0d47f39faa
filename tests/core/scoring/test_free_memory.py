"""How much memory of a machine is free."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from marith.scoring import free_memory as module
from marith.scoring.free_memory import free_memory
from marith.scoring.weights.gguf.gguf_weights import returning_freed


def test_free_memory_is_at_most_the_memory_of_the_machine() -> None:
    assert 0 < free_memory("cpu") <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"memory.max": "3000000", "memory.current": "1000000"}, 2_000_000),
        ({"memory.max": "max", "memory.current": "1000000"}, None),
        ({"memory.max": "5", "memory.current": "9"}, 0),
    ],
)
def test_the_limit_of_a_container_counts(
    files: dict[str, str], free: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups(files, "", tmp_path, monkeypatch)
    assert free_memory("cpu") == free or (free is None and free_memory("cpu") > 10**6)


@pytest.mark.parametrize(
    ("stat", "free"),
    [
        ("anon 300000\ninactive_file 600000\nactive_file 100000", 2_600_000),
        ("inactive_file 5000000", 3_000_000),  # counted at another moment
        ("anon 300000", 2_000_000),
        ("inactive_file", 2_000_000),
    ],
)
def test_unused_cached_files_count_as_free_memory(
    stat: str, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"memory.max": "3000000", "memory.current": "1000000", "memory.stat": stat}
    groups(files, "", tmp_path, monkeypatch)
    assert free_memory("cpu") == free


@pytest.mark.parametrize("tightest", ["", "user/", "user/session/"])
def test_the_smallest_limit_of_the_control_groups_counts(
    tightest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {}
    for group in ("", "user/", "user/session/", "other/"):
        most = 1 if group == "other/" else 50_000 if group == tightest else 90_000
        files[f"{group}memory.max"] = str(most)
        files[f"{group}memory.current"] = "20000"
    groups(files, "0::/user/session", tmp_path, monkeypatch)
    assert free_memory("cpu") == 30_000


@pytest.mark.parametrize("own", ["0::/docker/3f2a", "0::/../elsewhere", "nonsense", "1:name=a:/x"])
def test_if_its_own_control_group_is_hidden_the_root_counts(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "groups/memory.max": "50000",
        "groups/memory.current": "20000",
        "elsewhere/memory.max": "1",
        "elsewhere/memory.current": "0",
    }
    groups(files, own, tmp_path, monkeypatch)
    monkeypatch.setattr(module, "_GROUPS", tmp_path / "groups")
    assert free_memory("cpu") == 30_000


def groups(files: dict[str, str], own: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control groups in a folder, and the process in one of them."""
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(f"{text}\n")
    (root / "own").write_text(f"{own}\n")
    monkeypatch.setattr(module, "_GROUPS", root)
    monkeypatch.setattr(module, "_OWN_GROUP", root / "own")


@pytest.mark.parametrize(
    ("device", "free"), [("cuda", 500 + 60 - 20), ("cuda:1", 500 + 60 - 20), ("cuda:0", 100 + 9)]
)
def test_unused_memory_that_torch_reserves_on_a_gpu_is_free(
    device: str, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # torch's own counts stand replaced: no machine that runs these tests needs to have a GPU.
    for name, of_each in {
        "mem_get_info": [(100, 1000), (500, 1000)],
        "memory_reserved": [9, 60],
        "memory_allocated": [0, 20],
    }.items():
        monkeypatch.setattr(torch.cuda, name, of_each.__getitem__)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert free_memory(device) == free


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_a_limit_of_the_address_space_counts() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35));"
        "from marith.scoring.free_memory import free_memory; print(free_memory('cpu') < 2**35)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def test_freed_memory_returns_to_the_system_while_a_model_is_read() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("the kernel's count of pages is Linux's")

    def taken() -> int:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    before, kept = taken(), []
    with returning_freed():
        for _ in range(20):
            freed = torch.ones(2**21)  # 8 MB, in whose place the next would leave holes
            kept.append(torch.ones(2**18))
            del freed
        assert taken() - before < 28 * 1024  # in kB: 20 MB are kept
    assert len(kept) == 20
