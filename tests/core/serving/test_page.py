"""The page: its files go out without a key, hold no data, and make no markup or code of text."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.http_server import KEYS, client, served

from marith.serving.server import Server

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FOLDER = files("marith.serving") / "page"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("page"), keys=KEYS) as server:
        yield server


@pytest.fixture(scope="module")
def web(server: Server) -> Iterator[httpx.Client]:
    with client(server) as web:
        yield web


def test_every_file_is_served_without_a_key(web: httpx.Client) -> None:
    names = {file.name for file in FOLDER.iterdir()}
    assert "index.html" in names
    for path, name in [("/", "index.html"), *((f"/page/{name}", name) for name in names)]:
        answer = web.get(path)
        assert answer.status_code == 200
        assert answer.content == (FOLDER / name).read_bytes()
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache"
        kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
        kind = kinds.get(name.rpartition(".")[2], "image/")
        assert answer.headers["content-type"].startswith(kind)
        assert "access-control-allow-origin" not in answer.headers
        head = web.head(path)
        assert head.status_code == 200
        assert head.content == b""


PATHS = [
    "/page/", "/page/nothing.js", "/page/../server.py", "/page/..%2fserver.py",
    "/page/%2e%2e/server.py", "/page/%2e%2e%2fserver.py", "/page/..%5cserver.py", "/page/..",
    "/page//etc/passwd", "/page/%2fetc%2fpasswd", "/page/index.html%00.js", "/page/./index.html",
    "/page/INDEX.HTML", "/page/%252e%252e%252fserver.py",
    "/page/index.html/../../server.py", "//page/index.html",
]  # fmt: skip


class UnixConnection(http.client.HTTPConnection):
    """Sends a path as it is, which httpx would make shorter."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_another_file(server: Any, path: str) -> None:
    connection = UnixConnection(server.socket)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("host", "localhost")
    connection.endheaders()
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status in (401, 404)
    assert b"import" not in data
    assert b"root:" not in data


def test_without_a_key_there_is_the_page_and_no_data(web: httpx.Client) -> None:
    for path in ("/v1/models", "/page/../v1/models", "/openapi.json"):
        assert web.get(path).status_code == 401
    for path in ("/", "/page/index.html"):
        assert web.post(path).status_code == 405
        for name in (b"polite", b"rude", KEYS[0].encode()):
            assert name not in web.get(path).content
        assert web.get(path, headers={"host": "evil.example"}).status_code == 421
        assert web.get(path, headers={"origin": "https://evil.example"}).status_code == 403


FILES = sorted(FOLDER.iterdir(), key=lambda file: file.name)
WIDGET = files("marith.inspection.widget")  # shows parts of the page in a notebook
OF_BROWSERS = [*FILES, WIDGET / "widget.js", WIDGET / "widget.css"]
# What would make markup, styles or code of a text, or keep something beyond the page.
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "DOMParser", "createContextualFragment", "setHTML", "srcdoc", "cssText", "javascript:",
    'setAttribute("style"', "localStorage", "sessionStorage", "indexedDB", ".cookie",
    "importScripts", "XMLHttpRequest", "WebSocket", "sendBeacon", "http:", "https:",
)  # fmt: skip
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("file", OF_BROWSERS, ids=lambda file: file.name)
def test_no_file_makes_markup_or_code_of_text(file: object) -> None:
    text = file.read_text(encoding="utf-8").replace(SVG_NAMESPACE, "")  # type: ignore[attr-defined]
    assert [word for word in FORBIDDEN if word in text] == []
    if file.name.endswith(".css"):  # type: ignore[attr-defined]
        assert not re.search(r"@import|url\(|expression\(", text)


def test_the_page_asks_for_its_own_files_alone() -> None:
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=\"/page/)|<style|\sstyle=|\son\w+=", html)
    names = {file.name for file in FILES}
    for text in (html, *((FOLDER / name).read_text("utf-8") for name in names if ".js" in name)):
        for name in re.findall(r'(?:href|src)="/page/([^"]+)"|from "\./([^"]+)"', text):
            assert (name[0] or name[1]) in names
