"""Make the pictures of the page for docs/images: `make pictures` serves a model in a browser.

The pictures follow the steps of docs/tutorials/why_this_token.md, in their order. `door.gif` has
the same steps in four frames, and `door.png` is its third frame. A frame has a caption, and shows
the texts and the slider without the sentences about them: the status, the legend, the first
difference, and the hints. The last frame shows the card in place of the texts and the slider, and
not the card's table of alternatives.
"""

from __future__ import annotations

import io
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from support.browser import (
    ARGUMENTS,
    CHROMIUM,
    become,
    opened,
    pane,
    serving,
    settle,
    text_of,
    write,
)
from support.documents import blocks

from tools.real_models import QWEN, fetched

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TUTORIAL = ROOT / "docs" / "tutorials" / "why_this_token.md"
PERSONAS = next(block.code for block in blocks(TUTORIAL) if block.kind == "toml")
PROMPT = tomllib.loads(PERSONAS)["terms"]["pirate"]
MESSAGE = "Why is the sky blue?"
SECONDS = 300  # the longest time for a text
MOST_BYTES = {".png": 150_000, ".gif": 500_000}
COLORS = 256
WIDTH, HEIGHT, SCALE = 1280, 900, 1.5
FRAME_HEIGHT, FRAME_MARGIN = 510, 20
FRAME_MILLISECONDS = [3000, 2000, 4000, 5000]
# The two lines above each frame. `_draw` checks what they say.
ASKED = f"System prompt: “{PROMPT}” Question: “{MESSAGE}”"
CAPTIONS = (
    (ASKED, "Left: the prompt alone. Right: 0.75 of it. No pirate."),
    (ASKED, "Drag the weight to 1.5: the first token changes."),
    (ASKED, "Regenerate: with 1.5 of the prompt, the model is a pirate."),
    (
        "Why “Ah”? With the prompt, “Ah” is nearly as likely as “The”.",
        "To the model alone (M), it is far less likely, and M is subtracted.",
    ),
)
NOT_IN_DOOR = "#difference, .status, .legend-row, .read, #numbers legend, #sliders-hint, .empty"


def main() -> int:
    personas = PERSONAS.replace(f".venv/real/{QWEN.file}", str(fetched(QWEN)))
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
    _move(page, "ArrowLeft", "0.75", "“Ah” to “The”")
    _keep(page, "page_slider", page.locator(".answers"), "#prediction")
    _press(page, "#sliders button")
    _press(page, "#generate")  # without the marks of the change
    assert text_of(page, 0).startswith("Because the sky is made of"), text_of(page, 0)
    assert text_of(page, 1).startswith("The sky is blue because"), text_of(page, 1)
    frames = [_frame(page, 0)]
    _move(page, "ArrowRight", "1.5", "“The” to “Ah”")
    frames.append(_frame(page, 1))
    _press(page, "#sliders button")
    assert text_of(page, 1).startswith("Ahoy matey"), text_of(page, 1)
    frames.append(_frame(page, 2))
    token.click()
    _check_card(page)
    frames.append(_frame(page, 3, "#panes, #numbers, [aria-label=Alternatives]"))
    _keep_door(frames)


def _press(page: Any, button: str) -> None:
    """Press a button, and wait until no pane waits for the server."""
    page.locator(button).first.click()
    page.wait_for_timeout(500)
    settle(page, SECONDS)


def _move(page: Any, key: str, number: str, change: str) -> None:
    """Move the slider by a key to a number, and wait until the page says how the text changes."""
    page.locator("#number-0").focus()
    for _ in range(20):  # the slider has 21 places
        if page.input_value("#sliders input[type=number]") != number:
            page.keyboard.press(key)
    said = f"At {number}, token 1 changes from {change}."
    become(
        page, "said => document.querySelector('#prediction').textContent === said", said, SECONDS
    )


def _check_card(page: Any) -> None:
    """Check that the card says what its caption in the door says."""
    table = page.locator(".card [aria-label=Contributions]")
    assert table.locator("caption q").all_inner_texts() == ["Ah", "The"]
    parts = table.locator("th.part").all_inner_texts()
    added = table.locator("td:nth-child(5)").all_inner_texts()
    adds = {part: float(x.replace("−", "-")) for part, x in zip(parts, added, strict=True)}
    assert abs(adds["1.5*pirate"]) < 0.2 < 5 < adds["-0.5*M"], adds


def _frame(page: Any, number: int, *hidden: str) -> Image.Image:
    """Return the answers under the caption of a frame, without the `hidden` parts."""
    answers = page.locator(".answers")
    answers.evaluate(
        """(answers, [lines, hidden]) => {
            for (const part of answers.querySelectorAll(hidden)) part.hidden = true;
            document.querySelector("#caption")?.remove();
            const caption = document.createElement("div");
            caption.id = "caption";
            caption.style.cssText = "margin: 0 0 1rem";
            for (const line of lines) {
                const part = document.createElement("div");
                part.textContent = line;
                caption.append(part);
            }
            caption.lastChild.style.cssText = "font-size: 1.125rem; font-weight: 700";
            answers.prepend(caption);
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


def _keep(page: Any, name: str, part: Any = None, last: str | None = None) -> None:
    """Keep a picture of the window, or of a part of the page down to its `last` element."""
    whole = _opened((part or page).screenshot())
    bottom: float = whole.height
    if last:
        end = page.locator(last).bounding_box()
        height = end["y"] + end["height"] - part.bounding_box()["y"]
        bottom = min(bottom, (height + FRAME_MARGIN) * SCALE)
    _save(_few_colors(whole.crop((0, 0, whole.width, round(bottom)))), f"{name}.png")


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
