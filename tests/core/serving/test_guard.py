"""Access: keys, hosts and origins, and a cache of its own for each key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.held_passes import model_of
from support.http_server import JSON, KEYS, PAGE, client

from marith import ModelError, RequestError
from marith.serving.server import Server
from marith.serving.server_settings import is_loopback, read_keys, require_key

ROUTES = [
    "/v1/models", "/v1/models/pocket", "/metrics", "/tokenizer_info", "/openapi.json", "/nowhere",
    "/v1/recipes",
]  # fmt: skip
POSTS = [
    "/v1/chat/completions", "/v1/completions", "/v1/score", "/tokenize",
    "/detokenize", "/v1/explain", "/v1/inspect", "/v1/what_if",
]  # fmt: skip


@pytest.mark.parametrize("path", [*ROUTES, *POSTS])
@pytest.mark.parametrize("given_key", ["", "Bearer wrong-key-here", f"Basic {KEYS[0]}", "Bearer"])
def test_without_a_key_every_route_is_refused(server: Server, path: str, given_key: str) -> None:
    headers = {"authorization": given_key} if given_key else {}
    with client(server) as web:
        answer = web.request("POST" if path in POSTS else "GET", path, headers=headers, json={})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert KEYS[0] not in answer.text


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_probes_need_no_key(server: Server, path: str) -> None:
    with client(server) as web:
        assert web.get(path).status_code == 200


def test_each_key_is_accepted(server: Server) -> None:
    for key in KEYS:
        with client(server, headers={"authorization": f"bearer {key}"}) as web:
            assert web.get("/v1/models").status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("127.0.0.1:8000", 200), ("[::1]:8000", 200), ("Models.Example", 200),
        ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421),
    ],
)  # fmt: skip
def test_other_host_names_are_refused(web: httpx.Client, host: str, status: int) -> None:
    assert web.get("/v1/models", headers={"host": host}).status_code == status
    assert web.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [(PAGE, 200), ("http://localhost", 200), ("https://evil.example", 403), ("null", 403)],
)
def test_only_known_pages_may_ask(web: httpx.Client, origin: str, status: int) -> None:
    answer = web.get("/v1/models", headers={"origin": origin})
    assert answer.status_code == status
    allowed = answer.headers.get("access-control-allow-origin")
    assert allowed == (PAGE if origin == PAGE else None)
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "x-own"}
    headers = {**asked, "origin": origin, "authorization": ""}
    preflight = web.options("/v1/chat/completions", headers=headers)
    assert preflight.status_code == (200 if origin == PAGE else 400)
    allowed = preflight.headers.get("access-control-allow-origin")
    assert allowed == (PAGE if origin == PAGE else None)
    assert web.options("/v1/models", headers={"origin": origin}).status_code in (403, 405)


def test_pages_that_may_ask_read_refusals_too(web: httpx.Client) -> None:
    for headers, status in (({"authorization": ""}, 401), ({"host": "evil.example"}, 421)):
        answer = web.get("/v1/models", headers={"origin": PAGE, **headers})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "x-request-id" in answer.headers["access-control-expose-headers"]


def post(web: httpx.Client, body: str) -> httpx.Response:
    return web.post("/v1/chat/completions", content=body, headers=JSON)


def test_cached_prefixes_are_not_shared_between_keys(server: Server) -> None:
    def cached(key: str, text: str) -> int:
        body = {"max_tokens": 2, "messages": [{"role": "user", "content": text}]}
        with client(server, headers={"authorization": f"Bearer {key}"}) as web:
            usage = post(web, json.dumps(body)).json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    for key in KEYS:  # what other texts of a key have in common with this one is read
        cached(key, "dogs?")
    first, again, other = (cached(key, "cats!") for key in (KEYS[0], KEYS[0], KEYS[1]))
    assert first == other
    assert again > first


def test_a_first_token_comes_no_sooner_for_what_another_key_has_asked(server: Server) -> None:
    """Counted, not timed: how many tokens the model reads in each pass."""
    passes: list[int] = []

    def note(_: Any, args: Any, given: Any) -> None:
        passes.append(given["input_ids"].numel())

    def read(key: str, text: str) -> list[int]:
        passes.clear()
        with client(server, headers={"authorization": f"Bearer {key}"}) as web:
            messages = [{"role": "user", "content": text}]
            assert post(web, json.dumps({"max_tokens": 2, "messages": messages})).is_success
        return [*passes]

    [engine] = server.engines()
    hook = model_of(engine).register_forward_pre_hook(note, with_kwargs=True)
    try:
        secret, other = "the code is 4217", "the code is 9358"
        first, again = read(KEYS[0], secret), read(KEYS[0], secret)
        guess, wrong = read(KEYS[1], secret), read(KEYS[1], other)
    finally:
        hook.remove()
    assert sum(again) < sum(first), "what its own key has asked is kept"
    assert guess == first
    assert sum(wrong) > sum(again), "and what this one has not asked is read"


def test_ids_are_echoed_if_they_are_harmless(web: httpx.Client) -> None:
    assert (
        web.get("/health", headers={"x-request-id": "a.b-c_9"}).headers["x-request-id"] == "a.b-c_9"
    )
    for given_id in ("a" * 65, "a b", "<b>"):
        told = web.get("/health", headers={"x-request-id": given_id}).headers["x-request-id"]
        assert told.startswith("req-")


def test_keys_come_from_a_file_that_nobody_else_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text("# mine\nsk-one-key-1\n\nsk-two-key-2\n", encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(RequestError, match="other users may read the file of API keys"):
        read_keys(file)
    file.chmod(0o600)
    assert read_keys(file) == ("sk-one-key-1", "sk-two-key-2")
    for nothing in ("", "# mine\n\n"):
        file.write_text(nothing, encoding="utf-8")
        with pytest.raises(RequestError, match="has no key; write one"):
            read_keys(file)
    file.write_text("short", encoding="utf-8")
    with pytest.raises(RequestError, match="at least 8"):
        read_keys(file)
    monkeypatch.setenv("MARITH_API_KEYS", "sk-env-key-1, sk-env-key-2")
    assert read_keys(None) == ("sk-env-key-1", "sk-env-key-2")


def test_an_address_that_others_reach_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "models.example", "192.168.1.5"):
        assert not is_loopback(host)
        with pytest.raises(ModelError, match="an API key is needed"):
            require_key(host, ())
        require_key(host, KEYS)
    require_key("127.0.0.1", ())
    require_key("::1", ())
