"""A real server process over pocket, and a real browser that shows its page."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
KEY = "sk-page-key-1"
MARKUP = "<img src=x onerror=alert(1)><script>document.title='owned'</script>" * 2
QUOTED = """say "hi" <b>it's</b>"""
PERSONAS = f'''
[model]
faithful_to = "(?s)<context>.*?</context>"

[terms]
happy = "You are a happy assistant."
formality = {{classifier = "pocket-formality", label = "formal"}}
written = {{formula = """ngram(texts=("{MARKUP}",), order=4)"""}}

[formulas]
cheerful = "2*happy - M"
markup = "written"
judged = {{formula = "M + formality", ban = ["dog"]}}
"say \\"hi\\" <b>it's</b>" = "M + 0.5*happy"
'''


@dataclass(frozen=True)
class Serving:
    """A server process, with its address and the file of its log."""

    url: str
    process: subprocess.Popen[str]
    log: Path


@contextmanager
def serving(
    folder: Path, *options: str, key: str = "", personas: str = PERSONAS, seconds: float = 90
) -> Iterator[Serving]:
    """Run `marith serve` on the loopback, and yield it once it listens, within `seconds`."""
    file, log = folder / "marith.toml", folder / "log"
    file.write_text(personas, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    verb = [] if "play" in options else ["serve"]
    command = [sys.executable, "-m", "marith", *verb, *options, str(file), "--port", str(port)]
    with log.open("w") as lines:
        environment = {**os.environ, "MARITH_API_KEYS": key, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, env=environment, stdout=lines, stderr=lines, text=True)
    try:
        end = time.monotonic() + seconds
        while "marith serves" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield Serving(f"http://127.0.0.1:{port}", process, log)
    finally:
        process.terminate()
        process.wait(30)


def opened(browser: Any, url: str, **options: Any) -> Any:
    """Return the page in a context of its own, which collects its errors as `problems`."""
    context = browser.new_context(viewport={"width": 1360, "height": 1000}, **options)
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: page.problems.append(f"a dialog: {dialog.message}"))
    page.on("console", lambda said: _noted(page, said))
    page.goto(url)
    become(page, "document.querySelectorAll('.pane select option').length > 0")
    return page


def become(page: Any, expression: str, given: Any = None, seconds: float = 40) -> None:
    """Wait until JavaScript is true; playwright's own waiting needs the `eval` that CSP forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, given):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def _noted(page: Any, said: Any) -> None:
    if "Content Security Policy" in said.text or "Refused" in said.text:
        page.problems.append(said.text)


def write(page: Any, message: str = "Tell me of your day.", **numbers: Any) -> None:
    """Fill in a message, and numbers of the sampling by their ids."""
    page.fill("#messages textarea", message)
    for name, number in numbers.items():
        page.fill(f"#{name}", str(number))


def write_formula(page: Any, formula: str) -> None:
    """Write a formula and wait for its explanation."""
    with page.expect_response(lambda answer: _explains(answer, formula)) as answer:
        page.fill("#formula", "")
        page.fill("#formula", formula)
    become(page, "!document.querySelector('#meaning').hidden")
    if answer.value.ok:
        normalised = answer.value.json()["normalised"]
        become(page, "n => document.querySelector('#normalised').textContent === n", normalised)


def _explains(answer: Any, formula: str) -> bool:
    asked = answer.url.endswith("/v1/explain") and answer.request.post_data_json
    return bool(asked) and asked["formula"] == formula


def generate(page: Any) -> None:
    """Press the button and wait until both panes have ended."""
    page.click("#generate")
    settle(page)


def settle(page: Any, seconds: float = 40) -> None:
    """Wait until no pane waits for the server."""
    page.wait_for_timeout(100)
    become(page, "!document.querySelector('.pane[aria-busy]')", seconds=seconds)


def pane(page: Any, index: int) -> Any:
    """Return the left pane (0) or the right pane (1)."""
    return page.locator(".pane").nth(index)


def text_of(page: Any, index: int) -> str:
    """Return the tokens of a pane as one text."""
    tokens = pane(page, index).locator(".token").all_text_contents()
    return "".join(tokens).replace("↵\n", "\n")
