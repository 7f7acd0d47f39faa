"""The measures of engines over bytes print what the engine computes."""

import json
import math
import re
from pathlib import Path

import pytest

from marith import Engine, Prompted
from tools.byte_measures import bits, covers, texts


def test_bits_a_byte_are_those_of_the_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"short-1": "The cat sat.", "short-2": "A dog é"}
    file = tmp_path / "texts.json"
    file.write_text(json.dumps(data))
    formulas = ["N", "0.5*M + 0.5*N"]
    bits.main("pocket", "pocket-draft", formulas, file)
    printed = dict(re.findall(r"\| `(.*?)` \| ([\d.]+) ", capsys.readouterr().out))
    terms = {
        "M": Prompted(template="plain"),
        "N": Prompted(model="pocket-draft", template="plain"),
    }
    with Engine.load("pocket", over="bytes") as engine:
        for formula in formulas:
            of_texts = [
                -sum(engine.score("", text, formula, terms)) / math.log(2) / len(text.encode())
                for text in data.values()
            ]
            assert float(printed[formula]) == pytest.approx(sum(of_texts) / 2, abs=6e-4)


def test_the_distance_of_the_covers_is_printed_for_each_kind_of_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    covers.main("pocket", size=12)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0].removeprefix("| ") for row in rows] == [*covers.KINDS, "all"]
    for row in rows:
        mean, middle, _, largest = map(float, row[2:6])
        assert 0 <= middle <= largest <= 1
        assert 0 <= mean <= largest


def test_the_texts_are_whole_characters_of_about_300_bytes() -> None:
    for name, text in texts.texts().items():
        assert 250 < len(text.encode()) <= texts.SIZE, name
