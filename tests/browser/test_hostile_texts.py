"""What models and users write is text, whatever it looks like."""

from __future__ import annotations

from typing import Any

from support.browser import QUOTED, generate, pane, text_of, write, write_formula


def test_a_model_that_answers_markup_is_shown_as_it_wrote(page: Any) -> None:
    for choose in page.locator(".pane select").all():
        choose.select_option("markup")
    write(page, temperature=0, max_tokens=60)
    generate(page)
    assert "<script>document.title='owned'</script>" in text_of(page, 1)
    assert page.locator(".strip script, .strip img, .strip b").count() == 0
    pane(page, 1).locator(".token").nth(2).click()
    page.wait_for_selector(".card")
    assert page.title() == "marith: why this token?"
    assert page.locator("script").count() == 1


def test_a_persona_with_quotes_in_its_name(page: Any) -> None:
    chooser = page.locator(".pane select").nth(1)
    chooser.select_option(QUOTED)
    write(page, max_tokens=8)
    generate(page)
    assert "token" in pane(page, 1).locator(".status").inner_text()
    page.select_option("#begin", f"model {QUOTED}")
    assert page.input_value("#formula") == "M + 0.5*happy"
    assert page.locator("select b").count() == 0


def test_markup_in_every_field_stays_text(page: Any) -> None:
    hostile = "<img src=x onerror=alert(1)>\x1b[31m\u202e{passage}"
    page.locator("#terms input").fill("mood")
    page.locator("#terms textarea").fill(hostile)
    write(page, hostile, max_tokens=6)
    page.fill("#formula", hostile)
    page.wait_for_selector("#formula-problem:not([hidden])")
    assert page.locator("#formula-problem img").count() == 0
    assert "\u202e" not in page.inner_text("#formula-problem")
    write_formula(page, "2*mood - M")
    generate(page)
    assert page.locator("main img").count() == 0
