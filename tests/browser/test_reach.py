"""The page by keyboard alone, by a screen reader's rules, in a narrow window, dark and light."""

from __future__ import annotations

from typing import Any

import pytest
from support.browser import Serving, generate, opened, pane, settle, write


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, taking: Serving, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(browser, taking.url, color_scheme=scheme, reduced_motion="reduce")
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    options = {"runOnly": {"type": "tag", "values": tags}}

    def require_clean() -> None:
        found = Axe().run(page, options=options).response["violations"]
        bad = [one for one in found if one["impact"] in ("serious", "critical")]
        said = [(one["id"], [n["html"][:120] for n in one["nodes"][:3]]) for one in bad]
        assert said == []

    page.wait_for_selector("#normalised:not(:empty)")
    require_clean()
    write(page, seed=3, max_tokens=30)
    generate(page)
    pane(page, 1).locator(".token").nth(3).click()
    page.fill("#formula", "2*hapy")
    page.wait_for_selector("#formula-problem:not([hidden])")
    require_clean()
    page.click("#copy")
    require_clean()
    page.context.close()


def test_the_whole_page_works_by_keyboard_alone(page: Any) -> None:
    page.evaluate("document.body.focus()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Control+Enter")
    settle(page)
    seen = walk(page)
    assert {"formula", "begin", "generate", "number-0", "token", "seed"} <= set(seen)
    assert seen.count("token") == 2, "each strip is one tab stop"
    page.focus(".pane:nth-child(2) .token[tabindex='0']")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.index") == "3"
    assert page.locator(".pane").nth(1).locator(".read").inner_text().startswith("Token 4 of")
    page.keyboard.press("Enter")
    assert page.locator(".card h3 small").inner_text().startswith("token 4 of")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.dataset.index") == "0"


def walk(page: Any) -> list[str]:
    """What the tab key leads to from the first link around to it again, by id or class."""
    name = "document.activeElement.id || document.activeElement.className.split(' ')[0]"
    page.focus(".skip")
    seen = [""]
    while seen[-1] != "skip" and len(seen) < 100:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(name))
    return seen


def test_a_narrow_window_has_no_sideways_scroll_and_large_targets(page: Any) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    write(page, seed=3, max_tokens=40)
    generate(page)
    pane(page, 1).locator(".token").nth(3).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    small = page.evaluate(
        """[...document.querySelectorAll('button, input, select, textarea, summary')]
        .filter(one => one.offsetParent && one.type !== 'checkbox')
        .map(one => [one.id || one.textContent || one.type, one.getBoundingClientRect()])
        .filter(([, box]) => box.height < 24 || box.width < 24).map(([name]) => name)"""
    )
    assert small == []
    line = "parseFloat(getComputedStyle(document.querySelector('.strip')).lineHeight)"
    assert page.evaluate(line) >= 24
