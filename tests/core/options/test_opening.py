"""A file opened for its options: all of it is checked at once, and invalid files are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from marith import FormulaError, Options, load_file

BROKEN = [
    ("[model]\ntemprature = 1", "'model': there is no option 'temprature'"),
    ("[model]\nformula = 'M'", "'model': there is no option 'formula'"),
    ("[model]\nmodel = 5", "'model': model: .*, not 5"),
    ("[formulas]\nf = {formula = 'M', top_p = 2}", "formula 'f': top_p must be .*, not 2"),
    ("[formulas]\nf = {formula = 'M', model = 'f'}", "a formula and a model named 'f'"),
    ("[formulas]\npocket = 'M'\n[model]\nmodel = 'pocket'", "and a model named 'pocket'"),
    (
        "[formulas]\nf = {formula = 'M', speculation = 'x'}",
        "formula 'f': speculation must be .* 'x'",
    ),
    ("[formulas]\ng = 'M'\nf = 'M + nope'", "unknown term 'nope'"),
]


@pytest.mark.parametrize(("text", "says"), BROKEN, ids=[text for text, _ in BROKEN])
def test_every_fault_of_a_file_is_found_when_it_is_opened(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormulaError, match=says):
        Options.from_file(path, "g")
    with pytest.raises(ValidationError, match=says):
        Options(file=str(path))
    with pytest.raises((FormulaError, ValidationError), match=says):
        Options(file=load_file(path))


def test_the_result_of_load_file_opens_like_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a file that names no model, as one that is not trusted."""
    path = tmp_path / "marith.toml"
    path.write_text("[terms]\nhappy = 'Be happy.'\n[formulas]\ncheer = '2*happy - M'")
    by_path = Options(file=str(path), model="cheer")
    assert Options(file=load_file(path), model="cheer") == by_path
    assert Options(file=by_path.file, model="cheer") == by_path
    loaded = Options(file=load_file(path, trusted=False), model="cheer")
    assert (loaded.model, loaded.trusted) == ("pocket", False)
    monkeypatch.setenv("MARITH_MODEL", "owner/other")
    assert Options(file=load_file(path)).model == "owner/other"
    data = {"path": "x", "terms": {}, "formulas": {}}
    assert Options(file=data).model == "owner/other"


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (5, "file must be a path, not 5"),
        ("missing.toml", "cannot read 'missing.toml'"),
        ({"path": "x"}, "invalid persona file: terms"),
        ({"path": "x", "terms": 3, "options": {}, "formulas": {}}, "invalid persona file: terms"),
    ],
)
def test_an_invalid_file_is_refused(file: Any, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Options(file=file)


def test_an_unknown_name_is_told_the_names_there_are(tmp_path: Path) -> None:
    (tmp_path / "personas.toml").write_text(
        "[formulas]\ndetox = 'M'\ndraft = 'M'", encoding="utf-8"
    )
    with pytest.raises(FormulaError, match="no formula 'detxo'; did you mean 'detox'"):
        Options.from_file(tmp_path / "personas.toml", "detxo")
    with pytest.raises(FormulaError, match=r"named already; write from_file\(path, 'draft'\)"):
        Options.from_file(tmp_path / "personas.toml", "detox", model="draft")
    (tmp_path / "empty.toml").write_text("", encoding="utf-8")
    with pytest.raises(FormulaError, match="there are none"):
        Options.from_file(tmp_path / "empty.toml", "detox")
    with pytest.raises(ValueError, match="file must be a path, not None"):
        Options.from_file(None)  # type: ignore[arg-type]  # on purpose


def test_a_model_of_the_environment_is_looked_up_where_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "personas.toml"
    path.write_text("[formulas]\ndetox = 'M'", encoding="utf-8")
    monkeypatch.setenv("MARITH_MODEL", "nope-9")
    for given in ({"model": "owner/name"}, {"model_name": "pocket"}):
        for options in (Options(file=str(path), **given), Options.from_file(path, **given)):
            assert options.model == next(iter(given.values()))
