"""The tutorial on a real model runs, and its sweep shows what its text says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "examples" / "real_model.py"
SWEPT = re.compile(r"^(M.*?) +insults ([\d.]+)  perplexity +([\d.]+)$", re.MULTILINE)


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_the_union_lowers_insults_at_no_cost_and_a_difference_beyond_06_falls_apart(
    chat_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(chat_file.parents[2])
    runpy.run_path(str(PROGRAM), run_name="__main__")
    swept = SWEPT.findall(capsys.readouterr().out)
    insults = {formula: float(gain) for formula, gain, _ in swept}
    perplexity = {formula: float(cost) for formula, _, cost in swept}
    assert len(swept) == 11
    assert insults["M - 0.6*toxic"] < insults["M - 0.96*union(toxic, M)"] < insults["M"] / 2
    assert perplexity["M - 0.96*union(toxic, M)"] < perplexity["M"] < perplexity["M - 0.8*toxic"]
    assert perplexity["M - 0.96*toxic"] > 1000
