"""The pages print what they say that a real model answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.documents import PAGES, blocks, name
from support.page_runs import run_page

from tools.real_models import GEMMA, QWEN, SMOLLM2, RealModel

# By the title of an output.
MODELS = {
    "SmolLM2-135M-Instruct": SMOLLM2,
    "gemma-3-270m": GEMMA,
    "Qwen2.5-Coder-1.5B-Instruct": QWEN,
}
OUTPUTS = sorted({(page, block.model) for page in PAGES for block in blocks(page) if block.model})


@pytest.mark.parametrize(
    ("page", "model"), OUTPUTS, ids=lambda each: each if isinstance(each, str) else name(each)
)
def test_a_page_prints_what_the_real_model_answers(
    page: Path,
    model: str,
    fetch: Callable[[RealModel], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = page.read_text(encoding="utf-8")
    needed = [one for one in MODELS.values() if one is MODELS[model] or one.file in text]
    files = {one.file: fetch(one) for one in needed}
    run_page(page, tmp_path, monkeypatch, model, files)
