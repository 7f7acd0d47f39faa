"""Tables: every format gives the same rows, and a bad row is named in one sentence."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from marith.errors import RequestError
from marith.tables import FORMATS
from marith.training.labelled_texts import labelled

rows = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
        .filter(str.strip),
        st.sampled_from(["toxic", "civil", "an 'odd', \"one\""]) | st.integers(-5, 5).map(str),
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip


@settings(max_examples=12)
@given(rows)
def test_every_format_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        with (folder / f"rows{suffix}").open("w", encoding="utf-8", newline="") as file:
            quoted = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            quoted.writerows([("text", "label"), *told])
    objects = [{"text": text, "label": label} for text, label in told]
    lines = "".join(json.dumps(row) + "\n\n" for row in objects)
    (folder / "rows.jsonl").write_text(lines, encoding="utf-8")
    parquet.write_table(pa.Table.from_pylist(objects), folder / "rows.parquet")
    for suffix in FORMATS.keys() - {".txt"}:  # which has no labels
        found = labelled(folder / f"rows{suffix}")
        assert [(row.text, row.label) for row in found] == told, suffix


def test_labels_are_named_as_json_writes_them_and_columns_as_one_likes(
    table: Callable[..., Path],
) -> None:
    labels = ['"toxic"', "1", "0", "2.0", "true", '" spaced "']
    lines = "".join(f'{{"reply": "so", "class": {label}}}\n' for label in labels)
    found = labelled(table("a.jsonl", "\ufeff" + lines), "reply", "class")
    assert [row.label for row in found] == ["toxic", "1", "0", "2", "true", "spaced"]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.csv", "text,label\nso,1\n  ,0\n", "line 3: the text is empty"),
        ("a.csv", "text,label\nso,\n", "line 2: the label is empty"),
        ("a.csv", "body,label\nso,1\n", "no column 'text'; there are 'body', 'label'"),
        ("a.csv", "text,text\nso,1\n", "line 1: a column is named twice"),
        ("a.csv", "text,label\n", "has no rows"),
        ("a.jsonl", '{"text": "so", "label": 1}\n{"text": "so"}\n', "line 2: there is no column"),
        (
            "a.jsonl",
            '{"text": 7, "label": 1}\n',
            "line 1: the column 'text' must have a text in each row, not 7",
        ),
        ("a.jsonl", '{"text": "so", "label": 0.5}\n', "a label is a text or a whole number, not 0"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', "line 1: this text is not Unicode"),
    ],
)
def test_a_bad_row_is_refused_in_one_sentence(
    table: Callable[..., Path], name: str, text: str, problem: str
) -> None:
    path = table(name, text)
    with pytest.raises(RequestError) as caught:
        labelled(path)
    assert problem in str(caught.value)
    assert repr(str(path)) in str(caught.value)
