"""The tutorials on real models show what their texts say."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.documents import blocks

import marith
from tools.real_models import QWEN, RealModel

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = DOCS / "examples" / "real_model.py"
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


def test_a_formula_obeys_a_system_prompt_that_the_model_ignores(
    fetch: Callable[[RealModel], Path],
) -> None:
    page = DOCS / "tutorials" / "why_this_token.md"
    text = page.read_text(encoding="utf-8")
    file = tomllib.loads(next(block.code for block in blocks(page) if block.kind == "toml"))
    terms, formulas = file["terms"], file["formulas"]
    pictured = re.search(r"the prompt alone: (.+?)\. .+ the formula: (.+?)\.\]", text)
    assert pictured is not None
    question, greedy = "Why is the sky blue?", marith.Sampling(temperature=0)
    with marith.Engine.load(str(fetch(QWEN)), dtype=file["model"]["dtype"]) as engine:
        alone, obeyed = (
            engine.generate(question, formulas[name], terms, greedy, max_tokens=15)
            for name in ("prompt_alone", "more_pirate")
        )
        why = marith.inspect(engine, question, obeyed.tokens, formulas["more_pirate"], terms)
    assert alone.text.startswith(pictured[1])
    assert obeyed.text.startswith(pictured[2])
    first = why.positions[0]
    assert (first.text, first.bare_likeliest.text) == ("Ah", "The")
    assert [f"rank {view.rank}" in text for view in first.terms] == [True, True]
    for part, contribution in zip(why.parts, first.contributions, strict=True):
        written = re.search(rf"`{re.escape(part.text)}` adds ([+−][\d.]+)", text)
        assert written is not None
        # Between 16 and 32, numbers of bfloat16 are 0.125 apart, and processors round differently.
        number = float(written[1].rstrip(".").replace("−", "-"))
        assert contribution.value == pytest.approx(number, abs=0.1)
