"""Results survive a kill: what is written stays, half a line goes, the table is the same."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from marith import RequestError
from marith.evals.experiment.store import Journal, opened, read_lines
from marith.evals.experiment.texts import FILE, read_texts
from marith.evals.paper import toxicity

Finished = tuple[Path, dict[str, Any]]

FORMULAS = ("M", "union = M - 0.9*union(toxic, M)")
PROMPTS = 12
TOKENS = 6
SEED = 2  # one of whose draws none lies so near an edge that rounding decides it


FEW_AT_A_TIME = f"""
import sys
from pathlib import Path
from marith.evals.experiment import text_generation
from marith.evals.paper import toxicity
text_generation.IN_FLIGHT = 2
size = {{"n": {PROMPTS}, "max_tokens": {TOKENS}, "seed": {SEED}}}
toxicity.run(toxicity.ToxicitySettings(formulas={FORMULAS!r}, out=Path(sys.argv[1]), **size))
"""


def evaluate(out: Path) -> dict[str, Any]:
    """What a finished evaluation has come to; what a text cost may differ."""
    size: dict[str, Any] = {"n": PROMPTS, "max_tokens": TOKENS, "seed": SEED}
    asked = toxicity.ToxicitySettings(formulas=FORMULAS, out=out, **size)
    report = toxicity.run(asked).report()
    return {
        "toxicity.jsonl": (out / "toxicity.jsonl").read_text(encoding="utf-8"),
        "table": (report.to_csv(), report.to_markdown()),
        FILE: [replace(text, calls=0) for text in read_texts(out)],
    }


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out = tmp_path_factory.mktemp("unbroken") / "out"
    return out, evaluate(out)


def test_killed_half_way_and_started_again_it_ends_with_the_same_table(
    unbroken: Finished, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    with subprocess.Popen([sys.executable, "-c", FEW_AT_A_TIME, str(out)]) as child:
        try:
            texts = _wait_for_lines(out / FILE)
        finally:
            child.kill()
    assert child.returncode == -signal.SIGKILL  # it has not ended
    assert 0 < texts < PROMPTS * len(FORMULAS)
    assert evaluate(out) == unbroken[1]


def _wait_for_lines(path: Path) -> int:
    """How many texts there are as soon as there is one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if path.is_file() and (lines := path.read_bytes().count(b"\n")):
            return lines
        time.sleep(0.002)
    raise AssertionError("no text was made")


@pytest.mark.parametrize("seed", range(2))
def test_cut_at_any_byte_it_ends_with_the_same_table(
    unbroken: Finished, tmp_path: Path, seed: int
) -> None:
    source, expected = unbroken
    draw = random.Random(seed)
    for name in (FILE, "toxicity.jsonl", "perplexity.jsonl", "settings.json"):
        data = (source / name).read_bytes()
        kept = len(data) if name == "settings.json" else draw.randrange(len(data) // 2, len(data))
        (tmp_path / name).write_bytes(data[:kept])
    assert evaluate(tmp_path) == expected


def test_a_finished_evaluation_is_read_and_not_made_again(
    unbroken: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(*_: Any) -> None:
        raise AssertionError("no model is needed")

    monkeypatch.setattr("marith.evals.experiment.evaluation.Engine.load", loaded)
    monkeypatch.setattr("marith.evals.metrics.text_classifier.Attribute.open", loaded)
    assert evaluate(unbroken[0]) == unbroken[1]


def test_what_runs_beside_a_text_changes_nothing(
    unbroken: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marith.evals.experiment.text_generation.IN_FLIGHT", 3)
    assert evaluate(tmp_path / "out") == unbroken[1]


def test_other_settings_are_refused_with_the_first_that_differs(
    unbroken: Finished,
) -> None:
    def run(**other: Any) -> None:
        same = {"formulas": FORMULAS, "n": PROMPTS, "max_tokens": TOKENS, "seed": SEED}
        toxicity.run(toxicity.ToxicitySettings(out=unbroken[0], **{**same, **other}))

    for other, words in (
        ({"n": 13}, "n is 12 there and 13 here"),
        ({"max_tokens": 5}, "max_tokens is 6 there and 5 here"),
        ({"formulas": ("M",)}, "formulas.union is only there"),
        ({"terms": {"toxic": "Be rude."}}, "terms.toxic is "),
        ({"seed": 1, "n": 13}, "n is 12 there and 13 here"),
        ({"judge": "vader"}, "measures.negativity is only here"),
        ({"frame": "{message} "}, "the prompts are not the same"),
    ):
        with pytest.raises(RequestError, match="holds results of other settings") as error:
            run(**other)
        assert words in str(error.value)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with opened(tmp_path / "new" / "folder", {"n": 1}) as path:
        yield path


def test_half_a_line_is_dropped_and_whole_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    journal = Journal(path)
    journal.add({"text": "eins\nzwei ü "})
    journal.add({"text": "drei"})
    path.write_bytes(path.read_bytes() + b'{"text": "vi')
    again = Journal(path)
    assert [line["text"] for line in again.lines] == ["eins\nzwei ü ", "drei"]
    again.add({"text": "vier"})
    assert [line["text"] for line in read_lines(path)] == ["eins\nzwei ü ", "drei", "vier"]
    path.write_text('{"a": 1}\n[2]\n', encoding="utf-8")
    with pytest.raises(RequestError, match=r"line 2 of .* is no JSON object"):
        Journal(path)


def test_a_folder_is_for_one_run_at_a_time(folder: Path) -> None:
    with pytest.raises(RequestError, match="another run writes to"), opened(folder, {"n": 1}):
        pass


def test_files_that_no_evaluation_wrote_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with (
        pytest.raises(RequestError, match=r"'thesis.tex', which no evaluation wrote"),
        opened(tmp_path, {}),
    ):
        pass
    file = tmp_path / "thesis.tex"
    with pytest.raises(RequestError, match="cannot write to"), opened(file, {}):
        pass
    (tmp_path / "settings.json").write_text("{", encoding="utf-8")
    with pytest.raises(RequestError, match="cannot read"), opened(tmp_path, {}):
        pass


def test_texts_of_an_unfinished_run_are_no_texts(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there are no texts in"):
        read_texts(tmp_path)
    (tmp_path / FILE).write_text(json.dumps({"text": "a"}) + "\n", encoding="utf-8")
    with pytest.raises(RequestError, match="no text of an evaluation"):
        read_texts(tmp_path)
