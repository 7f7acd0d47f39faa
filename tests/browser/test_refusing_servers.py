"""A server that has stopped, that does not know the key, or that takes no formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.browser import KEY, Serving, become, generate, opened, pane, serving, write


def test_a_stopped_server_is_reported_in_one_sentence(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, "--allow-formulas") as server:
        page = opened(browser, server.url)
        page.wait_for_selector("#normalised:not(:empty)")
        write(page, max_tokens=5)
        generate(page)
        server.process.terminate()
        server.process.wait(30)
    generate(page)
    for i in (0, 1):
        status = pane(page, i).locator(".status").inner_text()
        assert status.startswith("The server does not answer. Start it again")
    page.fill("#formula", "3*happy - M")
    page.wait_for_selector("#formula-problem:not([hidden])")
    assert "does not answer" in page.inner_text("#formula-problem")
    assert page.problems == []
    page.context.close()


def test_a_key_is_asked_for_typed_and_kept_nowhere(browser: Any, locked: Serving) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(locked.url)
    page.wait_for_selector("#notice:not([hidden])")
    assert "asks for a key" in page.inner_text("#notice")
    page.fill("#key", "sk-wrong-key")
    page.keyboard.press("Enter")
    become(page, "document.querySelector('#notice').textContent.includes('not know')")
    page.fill("#key", KEY)
    page.keyboard.press("Enter")
    become(page, "document.querySelectorAll('.pane select option').length > 0")
    assert page.locator("#notice").is_hidden()
    page.fill("#key", "sk-wrong-key")
    page.keyboard.press("Tab")
    page.click("#generate")
    page.wait_for_selector(".status.wrong")
    assert "does not know this key" in pane(page, 1).locator(".status").inner_text()
    page.reload()
    page.wait_for_selector("#notice:not([hidden])")
    assert page.input_value("#key") == ""
    context.close()


def test_without_formulas_the_editor_and_sliders_are_off_and_say_why(
    browser: Any, locked: Serving
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(locked.url)
    page.wait_for_selector("#notice:not([hidden])")
    page.fill("#key", KEY)
    page.keyboard.press("Enter")
    become(page, "document.querySelectorAll('.pane select option').length > 0")
    for name in ("editor-off", "numbers-off"):
        assert "--allow-formulas" in page.inner_text(f"#{name}")
    assert page.locator("#formula").is_disabled()
    assert page.input_value("#formula") == "2*happy - M"
    assert page.locator("#terms .term").count() == 0
    assert page.locator(".pane select option[value='@formula']").count() == 0
    assert pane(page, 1).locator("select").input_value() == "cheerful"
    write(page, max_tokens=10)
    generate(page)
    pane(page, 1).locator(".token").first.click()
    assert page.locator(".card").count() == 1
    page.click("#copy")
    assert page.inner_text("#notice") == "Only the server knows the terms of this model."
    context.close()
