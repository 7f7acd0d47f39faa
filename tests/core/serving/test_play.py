"""`marith play`: a browser is opened on the page, which gets its key once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from support.serving import KEYS, PERSONAS, client, served, until

from marith.serving import guard
from marith.serving.server import Server

PAGE_KEY = "the-key-of-the-page"
# Does what the page does, and writes what it got.
BROWSER = """
import html, json, os, re, stat, sys, urllib.error, urllib.request
from pathlib import Path
from urllib.parse import urldefrag, urlsplit
file = Path(urlsplit(sys.argv[1]).path)
modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (file, file.parent)]
[leads] = re.findall(r'content="0; url=([^"]*)"', file.read_text())
address, fragment = urldefrag(html.unescape(leads))
def ask(path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "origin": address.rstrip("/"), **headers}
    try:
        request = urllib.request.Request(address + path, data, headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
token = {"token": fragment.removeprefix("token=")}
page, given = ask(""), ask("page/key", token)
key = json.loads(given[1]).get("key", "")
models = ask("v1/models", authorization="Bearer " + key)
again, without = ask("page/key", token), ask("v1/models")
with open(sys.argv[2], "w") as file:
    json.dump([page, given, models, again, without, key, sys.argv[1], modes], file)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = (*KEYS, PAGE_KEY)
    with served(tmp_path_factory.mktemp("play"), keys=keys, page_key=PAGE_KEY) as server:
        yield server


def exchange(web: httpx.Client, token: Any, **headers: str) -> httpx.Response:
    return web.post("/page/key", json={"token": token}, headers=headers)


def test_a_token_is_good_once_and_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(server) as web:
        for token in ("", "guessed", "é", PAGE_KEY):
            assert exchange(web, token).status_code == 401
        first, token = server.page_token.offer(), server.page_token.offer()
        assert first != token
        assert exchange(web, first).status_code == 401, "the newest is good alone"
        assert exchange(web, token, origin="https://evil.example").status_code == 403
        assert exchange(web, token, host="evil.example").status_code == 421
        answer = exchange(web, token)
        assert answer.json() == {"key": PAGE_KEY}
        assert answer.headers["cache-control"] == "no-store"
        again = exchange(web, token)
        assert again.status_code == 401
        assert again.json()["error"]["code"] == "invalid_token"
        monkeypatch.setattr(guard, "TOKEN_SECONDS", 0.0)
        late = server.page_token.offer()
        assert exchange(web, late).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 400), (b'{"token": 1}', 400), (b'{"token": "a", "key": "b"}', 400),
        (json.dumps({"token": "a" * 101}).encode(), 400),
        (json.dumps({"token": "a" * 2_000}).encode(), 413), (b"[]", 400),
    ],
)  # fmt: skip
def test_a_body_without_a_key_is_small(server: Server, body: bytes, status: int) -> None:
    with client(server) as web:
        headers = {"content-type": "application/json"}
        assert web.post("/page/key", content=body, headers=headers).status_code == status


def test_without_keys_there_is_no_token(tmp_path: Path) -> None:
    with served(tmp_path) as server, client(server) as web:
        assert server.page_token.offer() is None
        assert exchange(web, "").status_code == 401


FREE_PORT = """
import socket
with socket.socket() as bound:
    bound.bind(("127.0.0.1", 0))
    print(bound.getsockname()[1])
"""


@pytest.mark.skipif(os.name != "posix", reason="the browser is a script")
def test_a_browser_is_opened_on_the_page(tmp_path: Path) -> None:
    file, keys, found = tmp_path / "marith.toml", tmp_path / "keys", tmp_path / "found"
    file.write_text(PERSONAS, encoding="utf-8")
    keys.write_text("\n".join(KEYS), encoding="utf-8")
    keys.chmod(0o600)
    script = tmp_path / "browser.py"
    script.write_text(BROWSER, encoding="utf-8")
    browser = f"{sys.executable} {script} %s {found}"
    port = ["--port", subprocess.check_output([sys.executable, "-c", FREE_PORT], text=True).strip()]
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        playing = subprocess.Popen(
            [sys.executable, "-m", "marith", "play", str(file), *port, "--api-key-file", str(keys)],
            stdout=log, stderr=log, env={**os.environ, "BROWSER": browser},
        )  # fmt: skip
        try:
            until(lambda: found.exists() and found.read_text().endswith("]"), 60)
            playing.send_signal(signal.SIGTERM)
            assert playing.wait(20) == 0
        finally:
            playing.kill()
            playing.wait(20)
    page, given, models, again, without, key, opened, modes = json.loads(found.read_text())
    assert modes == [0o600, 0o700]
    assert re.fullmatch(r"file:///\S+/play\.html", opened), "nothing that others see has the token"
    assert not Path(urlsplit(opened).path).parent.exists()
    assert page[0] == given[0] == models[0] == 200
    assert again[0] == without[0] == 401
    assert [one["id"] for one in json.loads(models[1])["data"]] == ["pocket", "polite"]
    written = (tmp_path / "log").read_text()
    assert f"http://127.0.0.1:{port[1]}/#token=" in written
    assert key not in written
    assert not any(each in written for each in KEYS)
    assert "(2 API keys)" in written
