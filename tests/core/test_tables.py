"""Rows of files: in order, each with its line, and one sentence for an invalid row."""

from __future__ import annotations

from pathlib import Path

import pytest

from marith.errors import RequestError
from marith.tables import FORMATS, records


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.csv", 'text,n\n"one\ntwo",1\n\nthree,2\n',
         [("line 2", {"text": "one\ntwo", "n": "1"}), ("line 5", {"text": "three", "n": "2"})]),
        ("a.tsv", "text\tn\na,b\t1\n", [("line 2", {"text": "a,b", "n": "1"})]),
        ("A.JSONL", '\ufeff{"text": "so"}\n\n{"n": [1]}\n',
         [("line 1", {"text": "so"}), ("line 3", {"n": [1]})]),
        ("a.txt", "one\n\n  two, \n",
         [("line 1", {"text": "one"}), ("line 3", {"text": "  two, "})]),
        ("a.csv", "", []),
    ],
)  # fmt: skip
def test_rows_come_in_order_with_their_places(
    tmp_path: Path, name: str, content: str, found: list[tuple[str, dict[str, object]]]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert list(records(tmp_path / name)) == found


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b"{}", "data must be a .csv, .tsv, .jsonl, .parquet or .txt file, not"),
        ("a", b"", "not '"),
        ("a.txt", b"\xff", "cannot read"),
        ("a.csv", b"a,b\n1\n", "line 2: there are 1 values for 2 columns"),
        ("a.jsonl", b"[" * 100_000, "line 1: invalid JSON"),
        ("a.jsonl", b'"' + b"x" * 999 + b'"', "not 'xxx"),
        ("a.parquet", b"PAR1", "cannot read"),
    ],
)
def test_an_invalid_row_is_refused_with_its_line(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError) as refused:
        list(records(tmp_path / name))
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_file_that_is_not_there_is_said_without_a_number(tmp_path: Path) -> None:
    for kind in FORMATS:
        with pytest.raises(RequestError, match=r"cannot read .*: (No such|.*no such|.*Failed)"):
            list(records(tmp_path / f"a{kind}"))
