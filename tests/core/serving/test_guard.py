"""Who may ask, and what of: keys, hosts, origins, bodies and bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.serving import CHAT, WEATHER, client, lanes, served, with_bounds

from marith import ModelError, RequestError
from marith.serving.server import Server
from marith.serving.server_settings import is_loopback, read_keys, require_key

KEYS = ("sk-first-key", "sk-second-key")
BEARER = {"authorization": f"Bearer {KEYS[0]}"}
PAGE = "https://chat.example"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    bounds = with_bounds(body=20_000, answers=3, tools=2, stops=4, messages=5, tokens=40)
    with served(
        tmp_path_factory.mktemp("guard"), bounds, keys=KEYS, hosts=("models.example",),
        origins=(PAGE,),
    ) as server:  # fmt: skip
        yield server


@pytest.fixture(scope="module")
def web(server: Server) -> Iterator[httpx.Client]:
    with client(server, headers=BEARER) as web:
        yield web


ROUTES = ["/v1/models", "/v1/models/pocket", "/metrics", "/tokenizer_info", "/nowhere"]
POSTS = [
    "/v1/chat/completions", "/v1/completions", "/v1/score", "/tokenize", "/detokenize",
    "/v1/embeddings",
]  # fmt: skip


@pytest.mark.parametrize("path", [*ROUTES, *POSTS])
@pytest.mark.parametrize("given_key", ["", "Bearer wrong-key-here", f"Basic {KEYS[0]}", "Bearer"])
def test_without_a_key_every_route_is_shut(server: Server, path: str, given_key: str) -> None:
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


def test_each_key_opens(server: Server) -> None:
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
def test_only_its_own_names_are_answered(web: httpx.Client, host: str, status: int) -> None:
    assert web.get("/health", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [(PAGE, 200), ("http://localhost", 200), ("https://evil.example", 403), ("null", 403)],
)
def test_only_known_pages_may_ask(web: httpx.Client, origin: str, status: int) -> None:
    answer = web.get("/v1/models", headers={"origin": origin})
    assert answer.status_code == status
    allowed = answer.headers.get("access-control-allow-origin")
    assert allowed == (PAGE if origin == PAGE else None)
    preflight = web.options("/v1/models", headers={"origin": origin, "authorization": ""})
    assert preflight.status_code == (204 if status == 200 else 403)


def post(web: httpx.Client, body: bytes | str, **headers: str) -> httpx.Response:
    return web.post("/v1/chat/completions", content=body, headers={**JSON, **headers})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "is not JSON"),
        (b"[]", "is a JSON object"),
        (b'{"a": 1, "a": 2}', "a name comes twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "more than 32 digits"),
        (b'{"a": "\\ud800"}', "half a surrogate pair"),
        (b'{"\\udfff": 1}', "half a surrogate pair"),
        (b'{"a": "\xff"}', "is not UTF-8"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "more than 64 levels"),
        (b"[" * 9000, "levels"),
        (b'{"a": "' + b"x" * 30_000 + b'"}', "more than 20,000 bytes"),
    ],
    ids=range(13),
)
def test_bodies_that_others_read_otherwise_are_refused(
    web: httpx.Client, body: bytes, problem: str
) -> None:
    answer = post(web, body)
    assert answer.status_code in (400, 413)
    assert problem in answer.json()["error"]["message"]


def test_only_json_as_it_is_is_read(web: httpx.Client) -> None:
    assert post(web, b"{}", **{"content-type": "text/plain"}).status_code == 415
    assert post(web, b"{}", **{"content-encoding": "gzip"}).status_code == 415


BASE: dict[str, Any] = {"messages": CHAT, "max_tokens": 2}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": CHAT * 6}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"n": 4}, "n"),
        ({"n": 0}, "n"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"tools": [WEATHER] * 3}, "tools"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"functions": [{}]}, "functions"),
        ({"suffix": "x"}, "suffix"),
        ({"bad_words": ["x"]}, "bad_words"),
        ({"model": "gpt-5"}, "model"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"marith": {"formula": "2*M"}}, "marith"),
        ({"marith": {"terms": {"x": "y"}}}, "marith"),
        ({"marith": {"file": "/etc/passwd"}}, "marith"),
        ({"marith": {"speculation": "often"}}, "marith"),
        ({"chat_template_kwargs": {"a": {}}}, "chat_template_kwargs"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_served_is_a_400_that_names_the_field(
    server: Server, web: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = post(web, json.dumps({**BASE, **fields}))
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param
    assert answer.headers["x-should-retry"] == "false"
    assert lanes(server) == 0


def test_the_context_and_the_servers_cap_hold(web: httpx.Client) -> None:
    long = [{"role": "user", "content": "the sea " * 1200}]
    answer = post(web, json.dumps({"messages": long}))
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "context_length_exceeded" in answer.json()["error"]["message"]
    capped = post(web, json.dumps({**BASE, "max_tokens": 4000, "ignore_eos": True})).json()
    assert capped["usage"]["completion_tokens"] == 40
    assert "at most 40 tokens" in capped["marith"]["warnings"][0]


def test_what_is_kept_of_a_text_is_its_keys_own(server: Server) -> None:
    counts = []
    for key in (KEYS[0], KEYS[0], KEYS[1]):
        with client(server, headers={"authorization": f"Bearer {key}"}) as web:
            told = post(
                web, json.dumps({**BASE, "messages": [{"role": "user", "content": "cats!"}]})
            )
        counts.append(told.json()["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert counts[0] == counts[2]
    assert counts[1] > counts[0]


def test_ids_are_echoed_if_they_are_harmless(web: httpx.Client) -> None:
    assert (
        web.get("/health", headers={"x-request-id": "a.b-c_9"}).headers["x-request-id"] == "a.b-c_9"
    )
    for given_id in ("a" * 65, "a b", "<b>"):
        told = web.get("/health", headers={"x-request-id": given_id}).headers["x-request-id"]
        assert told.startswith("req-")


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
FIELDS = st.sampled_from(
    (
        "messages", "model", "max_tokens", "temperature", "top_p", "n", "stop", "seed", "tools",
        "tool_choice", "response_format", "logprobs", "top_logprobs", "stream", "marith", "prompt",
        "stream_options", "min_tokens", "stop_token_ids", "grammar", "echo", "continuation",
        "tokens", "top_k", "min_p", "presence_penalty", "chat_template_kwargs", "logit_bias",
    )
)  # fmt: skip
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/score", "/tokenize", "/detokenize"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), st.dictionaries(FIELDS, ODD, max_size=4), st.booleans())
def test_no_body_is_the_servers_fault(path: str, odd: dict[str, Any], valid: bool) -> None:
    body = {**BASE, "prompt": "a", **odd} if valid else odd
    assert_no_fault(_web[0], path, json.dumps(body).encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), st.binary(max_size=60))
def test_no_bytes_are_the_servers_fault(path: str, body: bytes) -> None:
    assert_no_fault(_web[0], path, body)


_web: list[httpx.Client] = []


@pytest.fixture(autouse=True)
def _shared(web: httpx.Client) -> None:
    _web[:] = [web]  # hypothesis takes no fixture of a function


def assert_no_fault(web: httpx.Client, path: str, body: bytes) -> None:
    answer = web.post(path, content=body, headers=JSON)
    assert answer.status_code < 500 or answer.json()["error"]["code"] == "timeout", answer.text
    assert "Traceback" not in answer.text


def test_no_lane_is_left(server: Server) -> None:
    assert lanes(server) == 0
    assert server.running == 0


def test_keys_come_from_a_file_that_nobody_else_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text("# mine\nsk-one-key-1\n\nsk-two-key-2\n", encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(RequestError, match="others may read the file of API keys"):
        read_keys(file)
    file.chmod(0o600)
    assert read_keys(file) == ("sk-one-key-1", "sk-two-key-2")
    file.write_text("short", encoding="utf-8")
    with pytest.raises(RequestError, match="at least 8"):
        read_keys(file)
    monkeypatch.setenv("MARITH_API_KEYS", "sk-env-key-1, sk-env-key-2")
    assert read_keys(None) == ("sk-env-key-1", "sk-env-key-2")


def test_an_address_that_others_reach_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "models.example", "192.168.1.5"):
        assert not is_loopback(host)
        with pytest.raises(ModelError, match="no API key is asked for"):
            require_key(host, ())
        require_key(host, KEYS)
    require_key("127.0.0.1", ())
    require_key("::1", ())
