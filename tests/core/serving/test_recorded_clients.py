"""Requests of a client, as it sends them, have the answers that are recorded with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.http_server import KEYS, client, served

RECORDED = Path(__file__).parents[2] / "data" / "open_webui.jsonl"
VARIES = (
    (r'"id":"chatcmpl-[0-9a-f]+"', '"id":"chatcmpl-1"'),
    (r'"created":\d+', '"created":1'),
    (r'"cached_tokens":\d+', '"cached_tokens":0'),
    (r"fp_[0-9a-f]+", "fp"),
    (r'"version":"[^"]+"', '"version":"1"'),
)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with served(tmp_path_factory.mktemp("recorded"), keys=KEYS) as server, client(server) as web:
        yield web


def answer_of(web: httpx.Client, asked: dict[str, Any]) -> dict[str, Any]:
    """What a server answers, without what differs from run to run."""
    content = json.dumps(asked["body"]) if "body" in asked else None
    answer = web.request(asked["method"], asked["path"], headers=asked["headers"], content=content)
    text = answer.text
    for pattern, replacement in VARIES:
        text = re.sub(pattern, replacement, text)
    kind = answer.headers["content-type"]
    return {"status": answer.status_code, "content-type": kind, "text": text}


def test_open_webui_gets_what_is_recorded(web: httpx.Client) -> None:
    """Its settings page with a wrong key and with the right one, a chat, and the chat's title.

    The requests have the paths, headers and fields with which its source makes them.
    """
    recorded = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    assert [one["answer"]["status"] for one in recorded] == [401, 200, 200, 200]
    for one in recorded:
        assert answer_of(web, one["request"]) == one["answer"]
