"""Formulas, streams, cards of tokens, and texts that continue from another token."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from support.browser import (
    become,
    generate,
    opened,
    pane,
    serving,
    settle,
    text_of,
    write,
    write_formula,
)
from support.pocket_vectors import write_vector


def test_a_formula_is_explained_and_its_text_streams(page: Any) -> None:
    write_formula(page, "M - 0.5*happy")
    assert page.inner_text("#normalised").startswith("log P = 2·log M − log happy")
    assert "happy" in page.inner_text("#tree")
    write(page, seed=3, max_tokens=40)
    page.click("#generate")
    streamed = pane(page, 1).locator(".streaming")
    streamed.wait_for(state="visible")
    become(page, "document.querySelectorAll('.pane .streaming')[1].textContent.length > 5")
    settle(page)
    assert streamed.is_hidden()
    assert pane(page, 1).locator(".token").count() > 5
    count, flipped = (pane(page, 1).locator(f".token{kind}").count() for kind in ("", ".flipped"))
    chosen = "are the formula's likeliest, where M would have picked another"
    sentence = f"{flipped} of {count} {chosen}."
    assert sentence in pane(page, 1).locator(".status").inner_text()


def test_what_vectors_add_is_told_and_what_they_push(browser: Any, tmp_path: Path) -> None:
    write_vector(tmp_path / "v.gguf")
    personas = "[terms]\nmerry = {vectors = {'v.gguf' = 0.6}}\n[formulas]\nm = 'M + 2*(merry - M)'"
    with serving(tmp_path, "--allow-formulas", personas=personas) as server:
        page = opened(browser, server.url)
        page.select_option("#begin", "model m")
        become(page, "document.querySelectorAll('#vectors li').length === 1")
        where = "to the hidden states of all tokens"
        assert re.fullmatch(f"merry adds 0.6 × '.*v.gguf' {where}", page.inner_text("#vectors"))
        write(page, seed=3, max_tokens=8)
        generate(page)
        pane(page, 1).locator(".token").first.click()
        table = page.locator(".card [aria-label=Vectors]")
        assert table.locator("thead th").all_inner_texts() == ["Term", "Pushes", "Raises", "Lowers"]
        assert table.locator("tbody th").all_inner_texts() == ["merry"]
        assert page.problems == []
        page.context.close()


def test_both_panes_have_one_seed_and_their_first_difference_is_marked(page: Any) -> None:
    write(page, seed=3, max_tokens=40)
    generate(page)
    left, right = (pane(page, i).locator(".token").all_text_contents() for i in (0, 1))
    place = next(i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    for i in (0, 1):
        marked = pane(page, i).locator(".differs")
        assert marked.get_attribute("data-index") == str(place)
    assert page.locator("#difference").inner_text().startswith("The texts")
    page.locator(".pane select").first.select_option("@formula")
    generate(page)
    assert text_of(page, 0) == text_of(page, 1)
    assert page.inner_text("#difference") == "Both texts are the same."
    assert pane(page, 0).locator(".differs").count() == 0


def test_a_card_has_every_term_and_contributions_that_add_up(page: Any) -> None:
    write(page, seed=3, max_tokens=40)
    generate(page)
    flipped = pane(page, 1).locator(".token.flipped").first
    flipped.click()
    assert flipped.get_attribute("aria-pressed") == "true"
    card = page.locator(".card")
    rows = card.locator("[aria-label=Contributions] tbody tr:not(.sum)")
    added = [number(row.locator("td").nth(3).inner_text()) for row in rows.all()]
    total = number(card.locator(".sum td").first.inner_text())
    assert len(added) == 2
    assert abs(sum(added) - total) < 0.011
    assert "M's likeliest" in card.inner_text()
    assert card.locator("[aria-label=Vectors]").count() == 0, "no term has vectors"
    heads = card.locator("[aria-label=Alternatives] thead th").all_inner_texts()
    assert heads == ["Token", "Composed", "M", "2.00 · happy", "−1.00 · M"]
    assert card.locator("[aria-label=Alternatives] tbody tr").count() >= 10


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", ""))


def test_an_alternative_is_gone_on_from(page: Any) -> None:
    write(page, seed=3, max_tokens=40)
    generate(page)
    before = pane(page, 1).locator(".token").all_text_contents()
    pane(page, 1).locator(".token").nth(4).click()
    other = page.locator(".alternative:enabled").first
    label = other.get_attribute("aria-label") or ""
    other.click()
    settle(page)
    after = pane(page, 1).locator(".token").all_text_contents()
    assert after[:4] == before[:4]
    assert after[4] != before[4]
    assert label == f"Go on from {after[4].replace(' ', '␣')}"
    assert len(after) > 5
    assert page.locator(".card h3").inner_text().startswith("Why")


def test_a_fault_of_a_formula_is_shown_with_a_caret(page: Any) -> None:
    page.fill("#formula", "2*hapy - M")
    problem = page.locator("#formula-problem")
    problem.wait_for(state="visible")
    lines = problem.locator("pre").inner_text().splitlines()
    assert lines[0] == "2*hapy - M"
    assert lines[1].rstrip() == "  ^^^^"
    assert "unknown term 'hapy'" in problem.locator("p").inner_text()
    assert page.get_attribute("#formula", "aria-invalid") == "true"
    write(page, max_tokens=5)
    generate(page)
    assert pane(page, 1).locator(".status.wrong").inner_text().startswith("unknown term 'hapy'")
    assert "^" not in pane(page, 1).locator(".status").inner_text()
    write_formula(page, "2*happy - M")
    assert problem.is_hidden()


def test_terms_are_added_and_removed_and_recipes_fill_the_editor(page: Any) -> None:
    page.click("#add-term")
    page.keyboard.type("formal")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.type("Speak formally.")
    write_formula(page, "happy + formal - M")
    page.locator("#terms .term").nth(1).get_by_role("button").click()
    page.wait_for_selector("#formula-problem:not([hidden])")
    page.select_option("#begin", "model cheerful")
    become(page, "document.querySelector('#formula').value === '2*happy - M'")
    assert page.input_value("#terms input") == "happy"
    recipe = page.locator("#begin option[value^='recipe ']").first.get_attribute("value")
    page.select_option("#begin", recipe)
    assert page.input_value("#formula") == page.locator("#begin option:checked").inner_text()


def test_arrow_keys_move_between_changed_tokens_if_only_those_are_shown(page: Any) -> None:
    write(page, seed=3, max_tokens=30)
    generate(page)
    right = pane(page, 1)
    right.get_by_label("Changed tokens only").check()
    right.locator(".token.flipped").first.click()
    places = []
    for _ in range(2):
        page.keyboard.press("ArrowRight")
        places.append(page.evaluate("document.activeElement.classList.contains('flipped')"))
    assert places == [True, True]


def test_a_text_is_stopped_and_another_one_made(page: Any) -> None:
    write(page, seed=3, max_tokens=500)
    page.click("#generate")
    page.click("#stop")
    settle(page)
    for i in (0, 1):
        assert pane(page, i).locator(".status").inner_text() == "Stopped."
    assert page.locator("#sliders input").first.is_disabled()
    assert page.locator("#difference").is_hidden()
    write(page, seed=3, max_tokens=20)
    generate(page)
    assert text_of(page, 1)
    assert page.locator("#sliders input").first.is_enabled()
