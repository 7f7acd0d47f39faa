"""The page of `marith serve` over a real model, in Debian's chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.browsing import (
    ARGUMENTS,
    CHROMIUM,
    become,
    opened,
    pane,
    serving,
    text_of,
    write,
)


def test_two_texts_and_why_a_token_is_there(chat_file: Path, tmp_path: Path, timed: Any) -> None:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is absent: `make real` installs it"
    )
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    personas = f"""
[model]
model = "{chat_file}"
[terms]
pirate = "You are a pirate and speak like a pirate."
[formulas]
pirate = "1.5*pirate - 0.5*M"
"""
    with (
        serving(tmp_path, "--allow-formulas", personas=personas, seconds=600) as server,
        sync_api.sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
        page = opened(browser, server.url)
        page.set_default_timeout(300_000)
        write(page, "Tell me about the moon.", seed=3, max_tokens=16)
        page.click("#generate")
        page.wait_for_selector(".pane .token", timeout=300_000)
        for _ in range(20):  # a busy machine: each has the time of one wait
            if not page.evaluate("!!document.querySelector('.pane[aria-busy]')"):
                break
            page.wait_for_timeout(5_000)
        become(page, "!document.querySelector('.pane[aria-busy]')")
        left, right = text_of(page, 0), text_of(page, 1)
        timed(f"M: {left!r}; pirate: {right!r}")
        assert left
        assert right
        assert left != right
        pane(page, 1).locator(".token").first.click()
        assert page.locator(".card").inner_text().startswith("Why")
        assert page.problems == []
        browser.close()
