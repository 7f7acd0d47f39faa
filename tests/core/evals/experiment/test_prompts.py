"""Prompts and formulas come out of files of many kinds, and what is wrong with them is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from marith import FormulaError, Prompted, RequestError
from marith.evals.experiment import hub
from marith.evals.experiment.evaluation_settings import (
    EvaluationSettings,
    GenerationSettings,
    source_texts,
)
from marith.evals.experiment.formulas import read_formulas
from marith.evals.experiment.prompt_rows import Rows, choose, of_pocket, read
from marith.evals.experiment.texts import NamedFormula
from marith.evals.pocket_texts import BEGINNINGS, HOSTILE_MESSAGES, QUESTIONS, REVIEWS, REVIEWS_OF

RECORDS = [
    {"id": 0, "text": 'one\ntwo, "three"', "label": 1},
    {"id": 1, "text": "  ", "label": 1},
    {"id": 2, "text": "ünïcode", "label": 0},
]
TEXTS = ((0, 'one\ntwo, "three"'), (2, "ünïcode"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps(record) for record in RECORDS), encoding="utf-8"
    )
    (tmp_path / "b.csv").write_text(
        'id,text,label\n0,"one\ntwo, ""three""",1\n1,  ,1\n2,ünïcode,0\n', encoding="utf-8"
    )
    parquet.write_table(pyarrow.Table.from_pylist(RECORDS), tmp_path / "c.parquet")
    return tmp_path


def test_all_kinds_of_files_hold_the_same_rows(files: Path) -> None:
    for name in ("a.jsonl", "b.csv", "c.parquet"):
        rows = read(str(files / name))
        assert (rows.column, rows.texts, rows.empty) == ("text", TEXTS, 1)
        some = read(str(files / name), where={"label": "0"})
        assert (some.texts, some.empty) == (TEXTS[1:], 0)
    whole = read(str(files))
    assert [row for row, _ in whole.texts] == [0, 2, 3, 5, 6, 8]
    (files / "d.txt").write_text("a prompt\n\nanother\n", encoding="utf-8")
    assert read(str(files / "d.txt")).texts == ((0, "a prompt"), (1, "another"))


def test_rows_are_picked_by_truth_values_and_numbers_as_json_writes_them(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"text": "a", "hard": True, "label": 1.0, "note": None},
        {"text": "b", "hard": False, "label": 0.5, "note": "x"},
        {"text": "", "hard": False, "label": 2.0, "note": "x"},
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "x.parquet")
    for path in (str(tmp_path / "x.jsonl"), str(tmp_path / "x.parquet")):
        for where in ({"hard": "true"}, {"hard": "True"}, {"label": "1"}, {"note": "null"}):
            assert read(path, where=where).texts == ((0, "a"),)
        for where, words in (
            ({"hard": "yes"}, "no row of .* has hard='yes'; it has 'true', 'false'"),
            ({"hard": "true", "label": "0.5"}, "has hard='true' and label='0.5'"),
        ):
            with pytest.raises(RequestError, match=words):
                read(path, where=where)
        with pytest.raises(RequestError, match=r"every text of .* is empty"):
            choose(read(path, where={"label": "2"}), 0, 0)


def test_the_column_is_one_of_the_usual_names_or_the_one_that_is_given(tmp_path: Path) -> None:
    path = tmp_path / "rtp.jsonl"
    record = {"name": "x", "prompt": {"text": "go on", "toxicity": 0.1}, "text": "no"}
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert read(str(path)).texts == ((0, "go on"),)
    assert read(str(path)).column == "prompt.text"
    assert read(str(path), "name").texts == ((0, "x"),)
    for column, words in (
        ("prose", "line 1 of .*rtp.jsonl' has no column 'prose'; it has name, prompt, text"),
        ("prompt.prose", "no column 'prompt.prose'"),
        ("prompt.toxicity", "no text in 'prompt.toxicity', but '0.1'"),
    ):
        with pytest.raises(RequestError, match=words):
            read(str(path), column)
    path.write_text('{"a": "x", "b": "y"}\n', encoding="utf-8")
    with pytest.raises(RequestError, match=r"which column of .* has the prompts\? It has a, b"):
        read(str(path))


def test_a_row_at_fault_is_named_by_its_file_and_its_line_there(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n', encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"text": "c"}\n\n{"text": 4}\n', encoding="utf-8")
    with pytest.raises(RequestError, match=r"line 3 of .*b.jsonl' has no text in 'text', but '4'"):
        read(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.jsonl", '{"text": "a"}\n{', "line 2: this is no JSON"),
        ("x.jsonl", "[1]", "line 1: a row is a JSON object"),
        ("x.jsonl", "", "has no rows"),
        ("x.parquet", "PAR1", "cannot read"),
        ("x.json", "{}", "a .csv, .tsv, .jsonl, .parquet or .txt file, not"),
        ("x.csv", 'text\n"\udcff', "cannot read"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, content: str, words: str) -> None:
    (tmp_path / name).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(RequestError, match=words):
        read(str(tmp_path / name))


def test_data_that_is_not_there_is_said(tmp_path: Path) -> None:
    for data, words in (
        (str(tmp_path / "x.csv"), "there is no data"),
        ("data/x.csv", "there is no data 'data/x.csv'"),
        (str(tmp_path), "has no .csv, .tsv, .jsonl, .parquet or .txt file"),
        ("hub:owner", "is hub:owner/name/file, not 'hub:owner'"),
        ("hub:owner/name", "is no file here, and cannot be had from the hub: "),
        ("owner/name/data/x.parquet", "is no file here, and cannot be had from the hub: "),
    ):
        with pytest.raises(RequestError, match=words) as error:
            read(data)
        assert len(str(error.value).splitlines()) == 1
    assert hub.names_dataset("owner/name")
    assert not hub.names_dataset("./owner/name")
    assert not hub.names_dataset("file.csv")


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 3))
def test_more_rows_keep_those_that_fewer_have(fewer: int, more: int, seed: int) -> None:
    rows = Rows("x", "text", tuple((i, str(i)) for i in range(12)))
    short, long = sorted((fewer, more))
    assert choose(rows, long, seed)[:short] == choose(rows, short, seed)
    assert len(set(choose(rows, long, seed))) == long
    kept = of_pocket(HOSTILE_MESSAGES, long, seed)[:short]
    assert kept == of_pocket(HOSTILE_MESSAGES, short, seed)


def test_more_rows_than_there_are_are_refused_with_their_number(files: Path) -> None:
    def asked(n: int | None) -> EvaluationSettings:
        return EvaluationSettings(data=str(files / "a.jsonl"), n=n)

    found = source_texts(asked(None), BEGINNINGS)
    assert sorted(found.texts) == list(TEXTS)
    assert found.source == f"'text' of {files / 'a.jsonl'}"
    assert found.notes == ("1 of the rows have no text and are left out",)
    with pytest.raises(RequestError, match=r"has 2 texts, not 3"):
        source_texts(asked(3), BEGINNINGS)
    with pytest.raises(RequestError, match="n is a whole number from 1, not 0"):
        asked(0)
    with pytest.raises(RequestError, match="column is of data, and there is none: 'text'"):
        EvaluationSettings(column="text")
    with pytest.raises(RequestError, match='"pocket\'s own questions" has 1000 texts, not 1001'):
        of_pocket(QUESTIONS, 1001, 0)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("samples", 0, "samples is a whole number from 1 to 10000, not 0"),
        ("max_tokens", -3, "max_tokens is a whole number from 1, not -3"),
        ("temperature", -1, "temperature is a number from 0, not -1"),
        ("seed", "x", "seed is a whole number from 0 to 2147483648, not 'x'"),
    ],
)
def test_settings_with_a_wrong_number_are_not_made(option: str, value: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        GenerationSettings(**{option: value})


def test_pockets_own_texts_are_different_and_the_same_for_the_same_seed() -> None:
    one = source_texts(EvaluationSettings(n=50), BEGINNINGS)
    assert one == source_texts(EvaluationSettings(n=50), BEGINNINGS)
    assert one.texts != source_texts(EvaluationSettings(n=50, seed=1), BEGINNINGS).texts
    assert one.texts[:3] == tuple(of_pocket(BEGINNINGS, 3, 0))
    assert [row for row, _ in one.texts] == list(range(50))
    for kind in (QUESTIONS, HOSTILE_MESSAGES, BEGINNINGS, REVIEWS, *REVIEWS_OF.values()):
        assert len({text for _, text in of_pocket(kind, 500, 1)}) == 500


def test_formulas_are_named_in_a_file_or_name_themselves(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text('# rows\n\ntwice = 2*a - M\nM + classifier("x", label="y")\n', encoding="utf-8")
    found = read_formulas([str(path), "plain=M", "union(a, M)"])
    assert found.lines == (
        NamedFormula("twice", "2*a - M"),
        NamedFormula('M + classifier("x", label="y")', 'M + classifier("x", label="y")'),
        NamedFormula("plain", "M"),
        NamedFormula("union(a, M)", "union(a, M)"),
    )
    with pytest.raises(RequestError, match="cannot read"):
        read_formulas([str(tmp_path / "none.txt")])


def test_a_bare_word_is_a_formula_also_where_a_file_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "M").write_text("2*a\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert read_formulas(["M"]).lines == (NamedFormula("M", "M"),)
    assert read_formulas(["./M"]).lines == (NamedFormula("2*a", "2*a"),)


def test_a_file_of_personas_brings_its_terms_and_says_what_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(
        '[model]\ntemperature = 0.5\n[terms]\nformal = "Be formal."\n[formulas]\n'
        'strict = {formula = "2*formal - M", max_tokens = 3}\n',
        encoding="utf-8",
    )
    found = read_formulas([str(path)])
    assert found.lines == (NamedFormula("strict", "2*formal - M"),)
    assert found.terms == {"formal": Prompted("Be formal.")}
    (note,) = found.notes
    assert note.endswith("do not hold in an evaluation: temperature, max_tokens")
    with pytest.raises(FormulaError, match="cannot read"):
        read_formulas([str(tmp_path / "none.toml")])
