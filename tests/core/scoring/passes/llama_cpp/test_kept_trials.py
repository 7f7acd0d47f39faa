"""What a trial found is kept, and nothing depends on what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from marith.scoring.weights.repacking import directory, kept


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MARITH_CACHE", str(tmp_path / "deep" / "cache"))
    return directory()


def found(calls: list[bool], answer: bool = True) -> bool:
    def trial() -> bool:
        calls.append(answer)
        return answer

    return kept("a file", trial)


def test_it_is_tried_once(folder: Path) -> None:
    calls: list[bool] = []
    assert [found(calls), found(calls, False)] == [True, True]
    assert calls == [True]
    assert [path.name for path in folder.iterdir()] == ["llama_cpp.json"]


@pytest.mark.parametrize("junk", ["", "[1]", "{", '{"a": []}'])
def test_a_damaged_file_is_no_file(folder: Path, junk: str) -> None:
    calls: list[bool] = []
    folder.mkdir(parents=True)
    (folder / "llama_cpp.json").write_text(junk)
    assert [found(calls), found(calls)] == [True, True]
    assert calls == [True]


def test_where_nothing_can_be_written_it_is_tried_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MARITH_CACHE", str(tmp_path / "file" / "cache"))
    calls: list[bool] = []
    assert [found(calls), found(calls)] == [True, True]
    assert calls == [True, True]
