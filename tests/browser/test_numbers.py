"""A slider predicts the first changed token, and the regenerated text changes there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.browser import become, generate, pane, settle, write, write_formula


def tokens_of(page: Any) -> list[str]:
    return pane(page, 1).locator(".token").all_text_contents()


def move(page: Any, index: int) -> str:
    """Move the first slider without letting it go; what is foreseen."""
    slider = page.locator("#number-0")
    slider.evaluate(
        "(range, to) => { range.value = to; range.dispatchEvent(new Event('input')); }", index
    )
    return said(page, r"^(At|With) ")


def said(page: Any, pattern: str) -> str:
    become(
        page,
        "want => new RegExp(want).test(document.querySelector('#prediction').textContent)",
        pattern,
    )
    return page.inner_text("#prediction")


def regenerate(page: Any) -> None:
    page.locator("#sliders button").first.click()


@pytest.mark.parametrize("temperature", [0, 1])
def test_the_predicted_flip_is_the_flip_of_the_regenerated_text(
    page: Any, temperature: float
) -> None:
    write(page, seed=5, max_tokens=40, temperature=temperature, top_p=0.9)
    generate(page)
    turned = 0
    for index in (13, 18, 20):
        before = tokens_of(page)
        foreseen = move(page, index)
        value = page.input_value("#sliders input[type=number]")
        if "stays as it is" in foreseen:
            regenerate(page)
            settle(page)
            assert tokens_of(page) == before
            continue
        turned += 1
        place = int(re.search(r"token (\d+) changes", foreseen)[1]) - 1  # type: ignore[index]
        assert pane(page, 1).locator(".turns").get_attribute("data-index") == str(place)
        assert tokens_of(page) == before, "nothing is written before the button is pressed"
        regenerate(page)
        said(page, f"^The text has changed from token {place + 1} on")
        settle(page)
        after = tokens_of(page)
        assert after[:place] == before[:place]
        assert after[place : place + 1] != before[place : place + 1]
        assert page.input_value("#formula") == f"{value}*happy - M"
    assert turned
    generate(page)
    assert page.inner_text("#prediction") == "", "it is of another text"


def test_a_moving_slider_asks_the_server_once(page: Any) -> None:
    write(page, seed=5, max_tokens=30)
    generate(page)
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    for index in (11, 14, 17, 20, 15):
        move(page, index)
    assert [url.rpartition("/")[2] for url in asked] == ["what_if"]
    page.fill("#sliders input[type=number]", "2.37")
    page.keyboard.press("Tab")
    said(page, "^At 2.37, ")
    regenerate(page)
    become(page, "document.querySelector('#formula').value === '2.37*happy - M'")
    settle(page)
    assert page.input_value("#formula") == "2.37*happy - M"


def test_a_number_that_makes_no_formula_says_why(page: Any) -> None:
    write(page, seed=5, max_tokens=20)
    generate(page)
    assert move(page, 0).startswith("At 1.02, "), "a slider has no value that is refused"
    move(page, 10)
    field = page.locator("#sliders input[type=number]")
    assert field.input_value() == "2"
    field.fill("0.123")
    field.press("Enter")
    said(page, "^With 0.123, ")
    regenerate(page)
    assert page.input_value("#formula") == "2*happy - M"


def test_sliders_work_by_keyboard_alone(page: Any) -> None:
    write(page, seed=5, max_tokens=30)
    write_formula(page, "2*happy - 0.5*M")
    generate(page)
    assert page.locator("#sliders input[type=range]").count() == 2
    page.focus("#number-1")
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    said(page, "^At 0.05")
    assert page.input_value("#formula") == "2*happy - 0.5*M"
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    become(page, "document.querySelector('#formula').value === '2*happy - 0.05*M'")
    settle(page)
    assert tokens_of(page)
