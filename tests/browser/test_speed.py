"""A long text scrolls and hovers without a pause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TRIES = 5  # other work of a machine lengthens some
LONG_TEXT = """async () => {
  const {TokenStrip} = await import('/page/strip.js');
  const words = [' the', ' weather', 'ing', ' happy', '.', ' and', ' sun', 'shine'];
  const likeliest = {token: 1, text: 'x', logprob: -1};
  const positions = Array.from({length: 2000}, (_, i) => ({
    place: i, token: i % 50, text: words[i % 8], logprob: -((i * 7) % 80) / 10, rank: 1,
    bare_logprob: -((i * 5) % 80) / 10, bare_rank: 2, bare_likeliest: likeliest,
    flipped: i % 3 === 0, entropy: 1,
  }));
  window.pauses = [];
  new PerformanceObserver(list => pauses.push(...list.getEntries().map(one => one.duration)))
    .observe({type: 'longtask'});
  window.strip = new TokenStrip('long', () => {}, () => {});
  strip.root.id = 'long';
  document.querySelector('.pane').append(strip.root);
  await strip.show(positions);
}"""


def test_a_long_text_has_no_pause(page: Any, report: Callable[[str], None]) -> None:
    page.evaluate(LONG_TEXT)
    page.wait_for_timeout(500)
    made = page.evaluate("pauses.splice(0)")
    assert page.locator("#long .token").count() == 2000
    page.locator("#long").scroll_into_view_if_needed()
    box = page.locator("#long").bounding_box()
    tries = []
    for _ in range(TRIES):
        for step in range(25):
            page.mouse.move(box["x"] + 20 + 11 * step, box["y"] + 20 + 3 * step)
            page.mouse.wheel(0, 200)
        page.evaluate("document.querySelector('#long .token').focus()")
        for _ in range(20):
            page.keyboard.press("ArrowRight")
        page.wait_for_timeout(300)
        tries.append(page.evaluate("pauses.splice(0)"))
    report(f"pauses over 50 ms while it is made {made}, while it scrolls and hovers {tries}")
    assert [] in tries
