"""Deltas joined are the whole answer, for 200 seeds of each kind of chat.

The engine keeps nothing of other texts here, so both requests compute the same: otherwise the
second reads what the first has kept, its log-probabilities differ by rounding, and of a thousand
seeds one draws its number within that of where another token begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.chat_deltas import KINDS, require_joined
from support.http_server import CHAT, PERSONAS, client, events, served

PATH = "/v1/chat/completions"
ALONE = f"[model]\ncache_bytes = 0\n{PERSONAS}"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with served(tmp_path_factory.mktemp("alone"), personas=ALONE) as server, client(server) as web:
        yield web


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ",".join(kind) or "plain")
def test_the_joined_deltas_are_the_whole_answer(web: httpx.Client, kind: dict[str, Any]) -> None:
    for seed in range(200):
        body = {"messages": CHAT, "model": "polite", "seed": seed, "max_tokens": 30, **kind}
        whole, streamed = (web.post(PATH, json={**body, "stream": s}) for s in (False, True))
        require_joined(whole.json(), events(streamed.text))
