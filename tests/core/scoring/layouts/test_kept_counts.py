"""What was measured of a processor is kept, and nothing depends on what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marith.scoring.layouts.kept_counts import directory, kept


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MARITH_CACHE", str(tmp_path / "deep" / "cache"))
    return directory()


def count_of(calls: list[int], answer: int = 2) -> int:
    def measure() -> int:
        calls.append(answer)
        return answer

    return kept("8 × 8, fewest rows", (1, 2, 4), measure)


def test_it_is_measured_once(folder: Path) -> None:
    calls: list[int] = []
    assert [count_of(calls), count_of(calls, 4)] == [2, 2]
    assert calls == [2]
    assert [path.name for path in folder.iterdir()] == ["row_counts.json"]


@pytest.mark.parametrize("junk", ["", "[1]", "{", '{"a": []}'])
def test_a_damaged_file_is_no_file(folder: Path, junk: str) -> None:
    calls: list[int] = []
    folder.mkdir(parents=True)
    (folder / "row_counts.json").write_text(junk)
    assert [count_of(calls), count_of(calls)] == [2, 2]
    assert calls == [2]


@pytest.mark.parametrize("value", [3, "2", None, [2], 10**9])
def test_a_number_that_is_none_of_those_it_can_be_is_measured_again(
    folder: Path, value: object
) -> None:
    count_of([])
    path = folder / "row_counts.json"
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), value)))
    calls: list[int] = []
    assert count_of(calls) == 2
    assert calls == [2]


def test_where_nothing_can_be_written_it_is_measured_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MARITH_CACHE", str(tmp_path / "file" / "cache"))
    calls: list[int] = []
    assert [count_of(calls), count_of(calls)] == [2, 2]
    assert calls == [2, 2]
