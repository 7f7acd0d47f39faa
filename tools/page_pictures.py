"""Make the pictures of the page for docs/images: `make pictures` serves a model in a browser.

The pictures follow the steps of docs/tutorials/why_this_token.md, in their order. `door.gif` has
the same steps in four frames, and `door.png` is its third frame.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from support.browser import ARGUMENTS, CHROMIUM, opened, pane, serving, write

from tools.real_models import QWEN, fetched

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TUTORIAL = (ROOT / "docs" / "tutorials" / "why_this_token.md").read_text("utf-8")
MESSAGE = "Why is the sky blue?"
MOST_BYTES = {".png": 150_000, ".gif": 500_000}
COLORS = 256
WIDTH, HEIGHT, SCALE = 1280, 900, 1.5
SLIDER_STEPS = 5  # from the number of the tutorial, 1.5, to half of it
FRAME_HEIGHT, FRAME_MARGIN = 490, 20
FRAME_MILLISECONDS = [2000, 2000, 4000, 4000]
# Each frame of the door has a caption above the texts, and only the parts that tell the story.
CAPTIONS = (
    "“You are a pirate. Answer like a pirate.” The model ignores this.",
    "Drag the weight of the prompt to 1.5: the first token changes.",
    "Regenerate: with 1.5 of the prompt, the model is a pirate.",
    "Why “Ah”? What each part of the formula adds:",
)
NOT_IN_DOOR = "#difference, .status, .legend-row, .read, #numbers legend, #sliders-hint, .empty"


def main() -> int:
    file = re.findall(r"^```toml\n(.*?)^```$", TUTORIAL, re.M | re.S)[0]
    personas = file.replace(f".venv/real/{QWEN.file}", str(fetched(QWEN)))
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), "--allow-formulas", personas=personas, seconds=300) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
        page = opened(browser, server.url, reduced_motion="reduce", device_scale_factor=SCALE)
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.wait_for_selector("#normalised:not(:empty)")
        _draw(page)
        browser.close()
    return 0


def _draw(page: Any) -> None:
    """Take the steps of the tutorial, and keep a picture after each."""
    token = pane(page, 1).locator(".token").first
    write(page, MESSAGE, temperature=0, max_tokens=40)
    pane(page, 0).locator("select").select_option("prompt_alone")
    _press(page, "#generate")
    _keep(page, "page_texts")
    token.click()
    _keep(page, "page_card", page.locator(".card"))
    ranks = page.locator(".card tbody").first.locator("td:nth-child(4)").all_inner_texts()
    assert all(f"rank {rank}" in TUTORIAL for rank in ranks if rank), ranks
    _move(page, "ArrowLeft")
    _keep(page, "page_slider", page.locator(".answers"), 700)
    _press(page, "#sliders button")
    _press(page, "#generate")  # without the marks of the change
    frames = [_frame(page, 0)]
    _move(page, "ArrowRight")
    frames.append(_frame(page, 1))
    _press(page, "#sliders button")
    frames.append(_frame(page, 2))
    token.click()
    frames.append(_frame(page, 3, "#panes, #numbers"))
    _keep_door(frames)


def _press(page: Any, button: str) -> None:
    """Press a button, and wait until no pane waits for the server."""
    page.locator(button).first.click()
    page.wait_for_timeout(500)
    while page.locator(".pane[aria-busy]").count():
        page.wait_for_timeout(200)


def _move(page: Any, key: str) -> None:
    """Move the slider by a key, and wait for the prediction."""
    page.locator("#number-0").focus()
    for _ in range(SLIDER_STEPS):
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    while not page.inner_text("#prediction").startswith("At "):
        page.wait_for_timeout(200)


def _frame(page: Any, number: int, *hidden: str) -> Image.Image:
    """Return the answers under the caption of a frame, without the `hidden` parts."""
    answers = page.locator(".answers")
    answers.evaluate(
        """(answers, [caption, hidden]) => {
            for (const part of answers.querySelectorAll(hidden)) part.hidden = true;
            document.querySelector("#caption")?.remove();
            const heading = document.createElement("h2");
            heading.id = "caption";
            heading.textContent = caption;
            heading.style.cssText = "margin: 0 0 1rem; font-size: 1.125rem";
            answers.prepend(heading);
            scrollTo(0, 0);
        }""",
        [CAPTIONS[number], ", ".join([NOT_IN_DOOR, *hidden])],
    )
    box = answers.bounding_box()
    clip = {
        "x": box["x"] - FRAME_MARGIN,
        "y": box["y"] - FRAME_MARGIN,
        "width": box["width"] + 2 * FRAME_MARGIN,
        "height": FRAME_HEIGHT,
    }
    return _opened(page.screenshot(clip=clip, full_page=True))


def _keep(page: Any, name: str, part: Any = None, height: int | None = None) -> None:
    """Keep a picture of the window, or of a part of the page down to a height."""
    whole = _opened((part or page).screenshot())
    bottom = min(whole.height, round(height * SCALE)) if height else whole.height
    _save(_few_colors(whole.crop((0, 0, whole.width, bottom))), f"{name}.png")


def _keep_door(frames: list[Image.Image]) -> None:
    """Keep the frames as a moving picture with one palette, and the third frame as a still one."""
    _save(_few_colors(frames[2]), "door.png")
    above = Image.new("RGB", (frames[0].width, sum(frame.height for frame in frames)))
    for i, frame in enumerate(frames):
        above.paste(frame, (0, i * frame.height))
    palette = _few_colors(above)
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    _save(few[0], "door.gif", append_images=few[1:], duration=FRAME_MILLISECONDS, loop=0)


def _opened(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as picture:
        return picture.convert("RGB")


def _few_colors(picture: Image.Image) -> Image.Image:
    # Text has many grays, so other methods leave no color to the small areas.
    coverage = Image.Quantize.MAXCOVERAGE
    return picture.quantize(COLORS, coverage, kmeans=1, dither=Image.Dither.NONE)


def _save(picture: Image.Image, name: str, **options: Any) -> None:
    path = IMAGES / name
    picture.save(path, optimize=True, save_all="append_images" in options, **options)
    size = path.stat().st_size
    print(f"  {path.relative_to(ROOT)}: {size:,} bytes", file=sys.stderr)
    assert size < MOST_BYTES[path.suffix], f"{path} is too large"


if __name__ == "__main__":
    sys.exit(main())
