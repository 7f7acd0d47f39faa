"""`marith play`: a browser is opened on the page of a server that takes formulas."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.http_server import PERSONAS, wait_until
from support.signals import default_signals

# Does what the page does at first, and writes what it got.
BROWSER = """
import json, sys, urllib.request
address = sys.argv[1]
found = [urllib.request.urlopen(address + path, timeout=20).read().decode()
         for path in ("", "v1/models")]
with open(sys.argv[2], "w") as file:
    json.dump([address, *found], file)
"""
FREE_PORT = """
import socket
with socket.socket() as bound:
    bound.bind(("127.0.0.1", 0))
    print(bound.getsockname()[1])
"""


@pytest.mark.skipif(os.name != "posix", reason="the browser is a script")
def test_a_browser_is_opened_on_the_page(tmp_path: Path) -> None:
    file, found = tmp_path / "marith.toml", tmp_path / "found"
    file.write_text(PERSONAS, encoding="utf-8")
    script = tmp_path / "browser.py"
    script.write_text(BROWSER, encoding="utf-8")
    browser = f"{sys.executable} {script} %s {found}"
    port = subprocess.check_output([sys.executable, "-c", FREE_PORT], text=True).strip()
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        command = [sys.executable, "-m", "marith", "play", str(file), "--port", port]
        environment = {**os.environ, "BROWSER": browser, "MARITH_API_KEYS": ""}
        with default_signals():
            playing = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            wait_until(lambda: found.exists() and found.read_text().endswith("]"), 60)
            playing.send_signal(signal.SIGTERM)
            assert playing.wait(20) == 0
        finally:
            playing.kill()
            playing.wait(20)
    address, page, models = json.loads(found.read_text())
    assert address == f"http://127.0.0.1:{port}/"
    assert "why this token?" in page
    listed = json.loads(models)
    assert [one["id"] for one in listed["data"]] == ["pocket", "polite"]
    assert listed["marith"]["allow_formulas"]
    assert f"{address}\n" in (tmp_path / "log").read_text()
