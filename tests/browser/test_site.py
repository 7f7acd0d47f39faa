"""The site of the documentation in a narrow and a wide window, dark and light."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tools.site.__main__ import SITE, build

PAGES = (
    "index.html", "overview.html", "tutorials/why_this_token.html", "examples/index.html",
    "reference/recipes.html", "reference/engine.html", "reference/performance.html",
)  # fmt: skip


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    build()
    handler = functools.partial(_Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_pages_fit_load_nothing_from_elsewhere_and_please_axe(
    browser: Any, address: str, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page, asked = context.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    for name in PAGES:
        page.goto(address + name, wait_until="networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        found = Axe().run(page).response["violations"]
        bad = [one["id"] for one in found if one["impact"] in ("serious", "critical")]
        assert bad == [], name
    page.keyboard.press("Control+k")
    page.keyboard.type("dexperts")
    page.wait_for_selector("a[href*='recipes.html']:has-text('dexperts')")
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    context.close()
