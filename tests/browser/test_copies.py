"""The copy of a formula does what the page did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.browser import generate, pane, text_of, write, write_formula

HOSTILE = "It's '; $(touch owned) `touch owned` \"quoted\" \\n \\\\ %s {x}\n"
HOSTILE += "next line — ünï \U0001f600 \u202ex"
SPOKEN = "You are \"happy\";\n'$(touch owned)' \\ \U0001f600."


def write_term(page: Any) -> None:
    page.locator("#terms input").fill("mood")
    page.locator("#terms textarea").fill(SPOKEN)
    write_formula(page, "1.5*mood - 0.25*M")


def copied(page: Any) -> str:
    page.click("#copy")
    return str(page.evaluate("document.querySelector('#copy-text').textContent"))


def run(command: list[str], folder: Path, **options: Any) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", timeout=170, **options
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert not (folder / "owned").exists()
    return done.stdout


def test_a_copy_gives_the_text_of_the_page(page: Any, tmp_path: Path) -> None:
    write(page, HOSTILE, seed=7, max_tokens=16, temperature=1)
    write_term(page)
    generate(page)
    (tmp_path / "marith.toml").write_text(copied(page), encoding="utf-8")
    told = [sys.executable, "-m", "marith", "generate", "-", "--file", "marith.toml"]
    told += ["--persona", "composed", "--json"]
    answer = json.loads(run(told, tmp_path, input=HOSTILE))
    text = text_of(page, 1)
    assert text in json.dumps(answer, ensure_ascii=False) or text in str(answer)


def test_a_formula_of_the_server_is_copied_too(page: Any) -> None:
    pane(page, 1).locator("select").select_option("judged")
    assert 'composed = "M + formality"' in copied(page)
