"""Make the pictures of the page for docs/images: `make pictures` serves pocket and opens a browser.

The pictures follow the steps of docs/tutorials/why_this_token.md, in their order.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from support.browser import ARGUMENTS, CHROMIUM, generate, opened, pane, serving, settle, write

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TUTORIAL = ROOT / "docs" / "tutorials" / "why_this_token.md"
MESSAGE = "Person 1: Anybody can do what teachers do. It takes no skill at all.\nPerson 2:"
MOST_BYTES = 150_000
COLOURS = 256
WIDTH, HEIGHT = 1280, 900


def main() -> int:
    personas = re.findall(r"^```toml\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.M | re.S)[0]
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), "--allow-formulas", personas=personas) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
        page = opened(browser, server.url, reduced_motion="reduce")
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.wait_for_selector("#normalised:not(:empty)")
        _draw(page)
        dark = opened(browser, server.url, color_scheme="dark", reduced_motion="reduce")
        dark.set_viewport_size({"width": 400, "height": HEIGHT})
        write(dark, MESSAGE, temperature=0, max_tokens=32)
        generate(dark)
        pane(dark, 1).locator(".token.flipped").first.click()
        pane(dark, 1).scroll_into_view_if_needed()
        _keep(dark, "page_narrow")
        browser.close()
    return 0


def _draw(page: Any) -> None:
    """Take the steps of the tutorial, and keep a picture after each."""
    write(page, MESSAGE, temperature=0, max_tokens=32)
    generate(page)
    _keep(page, "page_texts")
    pane(page, 1).locator(".token.flipped").first.click()
    _keep(page, "page_card", page.locator(".card"))
    slider = page.locator("#number-0")
    slider.focus()
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(400)
        if pane(page, 1).locator(".turns").count():
            break
    _keep(page, "page_slider", page.locator(".answers"), 700)
    page.locator("#sliders button").first.click()
    page.wait_for_timeout(500)
    settle(page)
    print("  " + page.inner_text("#prediction"), file=sys.stderr)


def _keep(page: Any, name: str, part: Any = None, height: int | None = None) -> None:
    """Keep a picture of the window, or of a part of the page down to a height, with few colours."""
    path = IMAGES / f"{name}.png"
    (part or page).screenshot(path=path)
    with Image.open(path) as picture:
        whole = picture.convert("RGB")
    few = whole.crop((0, 0, whole.width, min(whole.height, height or whole.height)))
    few.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"  {path.relative_to(ROOT)}: {size:,} bytes", file=sys.stderr)
    assert size < MOST_BYTES, f"{path} is too large"


if __name__ == "__main__":
    sys.exit(main())
