"""Every copy of a request does what the page did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.browsing import generate, pane, text_of, write, write_formula

HOSTILE = "It's '; $(touch owned) `touch owned` \"quoted\" \\n \\\\ %s {x}\n"
HOSTILE += "next line — ünï \U0001f600 \u202ex"
SPOKEN = "You are \"happy\";\n'$(touch owned)' \\ \U0001f600."


def write_term(page: Any) -> None:
    page.locator("#terms input").fill("mood")
    page.locator("#terms textarea").fill(SPOKEN)
    write_formula(page, "1.5*mood - 0.25*M")


@pytest.fixture
def copied(page: Any) -> tuple[dict[str, str], str]:
    """The copies of a hostile request, and the text that the page got for it."""
    write(page, HOSTILE, seed=7, max_tokens=16, temperature=1)
    write_term(page)
    generate(page)
    page.click("#copy")
    copies = {}
    for name in page.locator("#language option").all_inner_texts():
        page.select_option("#language", name)
        copies[name] = page.evaluate("document.querySelector('#copy-text').textContent")
    page.click("#copy-close")
    return copies, text_of(page, 1)


def run(command: list[str], folder: Path, **options: Any) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", timeout=170, **options
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert not (folder / "owned").exists()
    return done.stdout


def test_every_copy_gives_the_text_of_the_page(
    copied: tuple[dict[str, str], str], tmp_path: Path
) -> None:
    copies, text = copied
    assert set(copies) == {"Python", "LangChain", "LlamaIndex", "curl", "TOML"}
    for name in ("Python", "LangChain", "LlamaIndex"):
        file = tmp_path / f"{name}.py"
        file.write_text(copies[name], encoding="utf-8")
        assert run([sys.executable, str(file)], tmp_path) == text + "\n", name
    answer = json.loads(run(["sh", "-c", copies["curl"]], tmp_path))
    assert answer["choices"][0]["message"]["content"] == text
    (tmp_path / "marith.toml").write_text(copies["TOML"], encoding="utf-8")
    told = [sys.executable, "-m", "marith", "generate", "-", "--file", "marith.toml"]
    told += ["--persona", "composed", "--json"]
    answer = json.loads(run(told, tmp_path, input=HOSTILE))
    assert text in json.dumps(answer, ensure_ascii=False) or text in str(answer)


def test_what_a_copy_may_lack_is_said(page: Any) -> None:
    pane(page, 1).locator("select").select_option("judged")
    page.click("#copy")
    assert page.locator("#language option").count() == 5
    assert "such as ban, hold for curl alone" in page.inner_text("#copy-note")
