"""The widget of a notebook, on a page that has nothing else and asks for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.browser import become
from support.example_inspection import inspection
from support.pocket_vectors import write_vector

import marith
from marith import Inspection

HOSTILE = "</script><img src=x onerror=alert(1)><b>\u202e\x1b]8;;x\x07"
# What anywidget gives to `render`: a model that keeps values and says when one changes.
SHOW = """async ([module, state, ground]) => {
  document.body.style.background = ground;
  const url = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
  const listeners = new Map();
  window.model = {
    state, saved: 0, listeners,
    get(name) { return this.state[name]; },
    set(name, value) {
      this.state[name] = value;
      for (const listener of listeners.get(`change:${name}`) ?? []) listener();
    },
    save_changes() { this.saved += 1; },
    on(name, listener) { listeners.set(name, [...(listeners.get(name) ?? []), listener]); },
    off(name, listener) {
      listeners.set(name, listeners.get(name).filter((other) => other !== listener));
    },
  };
  const { default: widget } = await import(url);
  window.end = widget.render({ model: window.model, el: document.querySelector("main") });
}"""
SHADOW = "document.querySelector('.marith-inspection').shadowRoot"
PAGE = """<!doctype html><html lang=en><title>A notebook</title><h2>A notebook</h2>
<div id=before class=card><button class=token>a</button><table><tr><td>b</table></div>
<main></main>"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    """An inspection of pocket's own text. A term is within a part, and another has vectors."""
    file = write_vector(tmp_path_factory.mktemp("vectors") / "v.gguf")
    terms = {
        "happy": "You are a happy assistant.",
        "chef": "You are a chef.",
        "merry": marith.Prompted(vectors=((str(file), 0.6),)),
    }
    with marith.Engine.load("pocket") as engine:
        asked = "How do I boil an egg?", "2*happy - 0.5*union(chef, M) + 0.2*merry"
        made = engine.generate(*asked, terms, max_tokens=12, seed=3)
        return marith.inspect(engine, asked[0], made.tokens, asked[1], terms)


@pytest.fixture
def notebook(browser: Any) -> Iterator[Any]:
    """A page without a server; nothing goes wrong in it, and it asks for nothing."""
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 900})
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on(
        "request",
        lambda request: None if request.url.startswith("blob:") else problems.append(request.url),
    )
    page.set_content(PAGE)
    yield page
    context.close()
    assert problems == []


def show(page: Any, whole: Inspection, ground: str = "white") -> None:
    state = whole.widget().get_state()
    page.evaluate(SHOW, [state["_esm"], state, ground])
    become(page, f"{SHADOW}.querySelectorAll('.token').length === {len(whole.positions)}")


def test_a_pressed_token_shows_its_card(notebook: Any, real: Inspection) -> None:
    show(notebook, real)
    tokens = notebook.locator("main .token")
    assert "".join(tokens.all_text_contents()).replace("↵\n", "\n") == real.text
    assert "Press a token" in notebook.inner_text(".empty")
    tokens.nth(3).click()
    card = notebook.locator("main .card")
    assert card.get_attribute("aria-label") == "Token 4"
    assert f"token 4 of {len(real.positions)}" in card.inner_text()
    parts = card.locator("[aria-label=Contributions] th.part").all_inner_texts()
    assert parts == [part.text for part in real.parts]
    assert card.locator("button").count() == 0
    assert "go on" not in card.inner_text()
    assert notebook.evaluate("[model.state.chosen, model.saved]") == [3, 1]


def test_a_card_has_what_vectors_push(notebook: Any, real: Inspection) -> None:
    show(notebook, real)
    notebook.locator("main .token").nth(3).click()
    [push] = [view.vectors for view in real.positions[3].terms if view.vectors]
    table = notebook.locator("main .card [aria-label=Vectors] tbody")
    [name, value, raised, lowered] = table.locator("tr > *").all_inner_texts()
    assert (name, value) == ("merry", signed(push.push))
    for text, moved in ((raised, push.raised), (lowered, push.lowered)):
        assert re.findall(r"[+−][\d.]+", text) == [signed(token.push) for token in moved[:3]]
        assert moved[0].text.strip() in text


def signed(push: float | None) -> str:
    return f"{push:+.2f}".replace("-", "−")


def test_the_widget_works_by_keyboard_in_a_notebook(notebook: Any, real: Inspection) -> None:
    show(notebook, real)
    listen = "addEventListener('keydown', (event) => { window.target = event.target; }, true)"
    notebook.evaluate(listen)
    notebook.focus("#before button")
    notebook.keyboard.press("Tab")
    notebook.keyboard.press("ArrowRight")
    notebook.keyboard.press("ArrowRight")
    notebook.keyboard.press("Enter")
    assert notebook.get_attribute("main .card", "aria-label") == "Token 3"
    assert notebook.evaluate("target.dataset.lmSuppressShortcuts") == "true"
    assert notebook.inner_text(".read").startswith("Token 3 of ")


def test_python_chooses_a_token_too_until_the_view_ends(notebook: Any, real: Inspection) -> None:
    show(notebook, real)
    notebook.evaluate("model.set('chosen', 1)")
    assert notebook.get_attribute("main .card", "aria-label") == "Token 2"
    assert notebook.get_attribute("main .token >> nth=1", "aria-pressed") == "true"
    notebook.evaluate("model.set('chosen', null)")
    assert notebook.locator("main .card").count() == 0
    notebook.evaluate("end()")
    assert notebook.evaluate("[...model.listeners.values()].flat().length") == 0


def test_a_character_of_several_tokens_is_shown_with_its_last(notebook: Any) -> None:
    whole = inspection("a")
    (one,) = whole.positions
    part = replace(one, text="�", completed="")
    positions = (one, part, replace(part, completed="日"), part)
    show(notebook, replace(whole, positions=positions))
    tokens = notebook.locator("main .token")
    assert tokens.all_text_contents() == ["a", "⋯", "日", "⋯"]
    assert tokens.nth(1).get_attribute("aria-label") == "a part of a character"


def test_text_of_a_model_is_shown_as_text(notebook: Any) -> None:
    whole = inspection(HOSTILE)
    (term,), (part,) = whole.terms, whole.parts
    whole = replace(
        whole,
        terms=(replace(term, names=(HOSTILE,), text=HOSTILE),),
        parts=(replace(part, text=HOSTILE),),
        observations=(HOSTILE,),
    )
    show(notebook, whole)
    notebook.locator("main .token").click()
    assert notebook.locator("main img, main script, main b b").count() == 0
    text = notebook.evaluate(f"{SHADOW}.textContent")
    written = "</script><img src=x onerror=alert(1)><b>⟨U+202E⟩⟨U+001B⟩]8;;x⟨U+0007⟩"
    assert text.replace("␣", " ").count(written) > 5
    assert not {"\u202e", "\x1b", "\x07"} & set(text)
    labels = notebook.evaluate(
        f"[...{SHADOW}.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.value))"
    )
    assert not {"\u202e", "\x1b", "\x07"} & set("".join(labels))


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_widget_is_dark_if_the_browser_is(notebook: Any, real: Inspection, system: str) -> None:
    notebook.emulate_media(color_scheme=system)
    show(notebook, real)
    root = notebook.locator(".inspection")
    papers = {"light": "rgb(250, 249, 246)", "dark": "rgb(20, 23, 28)"}
    assert root.evaluate("root => getComputedStyle(root).backgroundColor") == papers[system]


def test_the_styles_of_widget_and_notebook_do_not_affect_each_other(
    notebook: Any, real: Inspection
) -> None:
    styles = """(selector) => [...document.querySelectorAll(selector)].map(
      (e) => [...getComputedStyle(e)].filter((name) => !/size|origin/.test(name)).map(
        (name) => `${name}: ${getComputedStyle(e).getPropertyValue(name)}`))"""
    around = "html, body, #before, #before *"
    before = notebook.evaluate(styles, around)
    assert len(before) == 8
    show(notebook, real, "")
    for old, new in zip(before, notebook.evaluate(styles, around), strict=True):
        changed = [line for line in old if line not in new]
        assert [line for line in changed if not line.startswith(("height:", "width:"))] == []
    notebook.locator("main .token").nth(1).click()
    name = notebook.locator(".facts dt").first
    places = [name.bounding_box(), notebook.locator(".facts dd").first.bounding_box()]
    notebook.add_style_tag(
        content="main * { letter-spacing: 9px } body dt, body dd { float: left; font-weight: bold }"
    )
    assert places == [name.bounding_box(), notebook.locator(".facts dd").first.bounding_box()]
    assert name.evaluate("name => getComputedStyle(name).fontWeight") == "400"


@pytest.mark.parametrize("ground", ["white", "rgb(17, 17, 17)"])
def test_axe_finds_nothing_in_it(notebook: Any, real: Inspection, ground: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    show(notebook, real, ground)
    notebook.locator("main .token").nth(2).click()
    found = axe.Axe().run(notebook, context="main").response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
