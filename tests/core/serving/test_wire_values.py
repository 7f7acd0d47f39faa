"""Bodies and values that cannot be served are the client's fault, and said in one sentence."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.http_server import CHAT, JSON, WEATHER, client, lanes

from marith.serving.app import ROUTES
from marith.serving.server import Server


def post(web: httpx.Client, body: bytes | str, **headers: str) -> httpx.Response:
    return web.post("/v1/chat/completions", content=body, headers={**JSON, **headers})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "is not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"a": NaN}', "is not JSON"),
        (b'{"a": -Infinity}', "is not JSON"),
        (b'{"temperature": 1e999}', "temperature"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"a": "\\ud800"}', "is not JSON"),
        (b'{"\\udfff": 1}', "is not JSON"),
        (b'{"a": "\xff"}', "is not JSON"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", "is not JSON"),
        (b"[" * 9000, "is not JSON"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "more than 220,000 bytes"),
    ],
    ids=range(12),
)
def test_invalid_json_and_too_large_bodies_are_refused(
    web: httpx.Client, body: bytes, problem: str
) -> None:
    answer = post(web, body)
    assert answer.status_code in (400, 413)
    assert problem in answer.json()["error"]["message"]


def test_other_content_types_and_encodings_are_refused(web: httpx.Client) -> None:
    assert post(web, b"{}", **{"content-type": "text/plain"}).status_code == 415
    for encoding in ("br", "gzip"):
        assert post(web, b"{}", **{"content-encoding": encoding}).status_code == 415


BASE: dict[str, Any] = {"messages": CHAT, "max_tokens": 2}
NESTED = '{"type": "array", "items": ' * 180 + "{}" + "}" * 180
LONG, INFINITE = "9" * 4000, "1e999"
ODD_PARTS = [
    *(f'"{name}": {LONG}' for name in ("max_tokens", "top_k", "min_tokens", "n", "top_logprobs")),
    *(f'"{name}": {INFINITE}' for name in ("temperature", "top_p", "presence_penalty")),
    f'"logit_bias": {{"5": {INFINITE}}}', f'"stop_token_ids": [{LONG}]',
    f'"marith": {{"prefix": [{LONG}]}}', f'"marith": {{"inspect": {LONG}}}',
    *(
        f'"response_format": {{"type": "json_schema", "json_schema": {{"schema": {one}}}}}'
        for one in (NESTED, f'{{"type": "number", "minimum": {INFINITE}}}', f'{{"const": {LONG}}}')
    ),
    *(f'"chat_template_kwargs": {{"a": {one}}}' for one in (LONG, INFINITE)),
    *(f'"metadata": {{"a": {one}}}' for one in (LONG, INFINITE)),
    f'"tools": [{{"type": "function", "function": {{"name": "x", "parameters": {NESTED}}}}}]',
]  # fmt: skip


@pytest.mark.parametrize("part", ODD_PARTS, ids=lambda part: part[:40])
def test_numbers_without_end_and_deep_schemas_are_no_fault_of_the_server(
    web: httpx.Client, part: str
) -> None:
    body = f"{json.dumps(BASE)[:-1]}, {part}}}"
    assert_no_fault(web, "/v1/chat/completions", body.encode())


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//", "a" * 9000])
def test_an_odd_origin_is_refused(server: Server, origin: str) -> None:
    with client(server) as web:
        assert web.get("/v1/models", headers={"origin": origin}).status_code == 403


def test_texts_that_no_context_holds_are_not_read(web: httpx.Client) -> None:
    bodies = {
        "/tokenize": {"prompt": "a" * 19_000},
        "/v1/completions": {"prompt": "a" * 19_000},
        "/v1/score": {"prompt": "a", "continuation": "a" * 19_000},
    }
    for path, body in bodies.items():
        answer = web.post(path, json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_a_score_reads_no_more_messages_than_a_chat(web: httpx.Client) -> None:
    told = web.post("/v1/score", json={"messages": CHAT * 1001, "continuation": "a"})
    assert told.status_code == 400
    assert told.json()["error"]["param"] == "messages"


def test_the_context_and_the_servers_cap_hold(web: httpx.Client) -> None:
    long = [{"role": "user", "content": "the sea " * 1500}]
    answer = post(web, json.dumps({"messages": long}))
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "context_length_exceeded" in answer.json()["error"]["message"]
    capped = post(web, json.dumps({**BASE, "max_tokens": 4000, "ignore_eos": True})).json()
    assert capped["usage"]["completion_tokens"] == 40
    assert "at most 40 tokens" in capped["marith"]["warnings"][0]


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
NUMBER = st.integers(-(2**70), 2**70) | st.floats(-1e9, 1e9) | st.sampled_from([0, 1, 2, 5, -1])
TEXTS = st.text(max_size=9) | st.lists(st.text(max_size=5), max_size=6)
TYPED: dict[str, Any] = {
    **dict.fromkeys(
        ("max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "seed",
         "top_logprobs", "min_tokens", "presence_penalty", "frequency_penalty",
         "repetition_penalty"), NUMBER,
    ),
    "logit_bias": st.dictionaries(st.integers(-5, 10**12).map(str) | st.text(max_size=4), NUMBER),
    "stop": TEXTS,
    "stop_token_ids": st.lists(st.integers(-3, 10**7), max_size=5),
    "messages": st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "system", "tool", "assistant", "x"])},
            optional={"content": ODD, "tool_calls": ODD, "name": ODD},
        ), max_size=4,
    ),
    "tools": st.lists(
        st.sampled_from([WEATHER, {"type": "function", **WEATHER["function"]}])
        | st.fixed_dictionaries({"type": ODD, "function": ODD})
    ),
    "metadata": ODD,
    "tool_choice": st.sampled_from(["auto", "none", "required", "weather"]) | ODD,
    "response_format": st.sampled_from([{"type": "json_object"}, {"type": "text"}]) | ODD,
    "grammar": st.sampled_from(['start: "a"', "start: (", "", "x"]) | st.text(max_size=9),
    "prompt": TEXTS | st.lists(st.integers(-3, 10**5), max_size=6),
    "continuation": TEXTS | st.lists(st.integers(-3, 10**5), max_size=6),
    "tokens": st.lists(st.integers(-3, 10**5), max_size=6),
    "marith": st.fixed_dictionaries(
        {}, optional={"ban": TEXTS, "faithful": NUMBER, "formula": st.text(max_size=6),
                      "speculation": st.sampled_from(["auto", "none", "x"])},
    ) | ODD,
    **dict.fromkeys(("stream", "logprobs", "echo", "continue_final_message"), st.booleans()),
    **dict.fromkeys(("stream_options", "chat_template_kwargs", "model"), ODD),
}  # fmt: skip
FIELDS = st.lists(st.sampled_from([*TYPED]), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: TYPED[name] for name in names})
)
PATHS = [path for path, route in ROUTES.items() if route.takes]
EXAMPLES = 150 if settings.get_current_profile_name() == "ci" else 10_000 * len(PATHS)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), FIELDS, st.booleans())
def test_no_body_causes_a_server_error(path: str, odd: dict[str, Any], valid: bool) -> None:
    base = {**BASE, "prompt": "a"}
    body = {**base, **odd} if valid else odd
    assert_no_fault(_web[0], path, json.dumps(body).encode())


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), st.binary(max_size=60))
def test_no_bytes_cause_a_server_error(path: str, body: bytes) -> None:
    assert_no_fault(_web[0], path, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("own", [{"formula": "M - M"}, {"x": 1}, "x", 7, ["x"], True], ids=str)
def test_no_route_ignores_a_field_of_an_object_marith(
    web: httpx.Client, path: str, own: Any
) -> None:
    body = {"messages": CHAT, "tokens": [1], "continuation": "a", "marith": own}
    answer = web.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"].count("\n") == 0


@pytest.mark.parametrize("path", ["/v1/explain", "/tokenize", "/detokenize"])
@pytest.mark.parametrize("own", [{}, None], ids=str)
def test_an_object_marith_without_fields_changes_nothing(
    web: httpx.Client, path: str, own: Any
) -> None:
    answer = web.post(path, json={"prompt": "a", "tokens": [1], "marith": own})
    assert answer.status_code == 200, answer.text


_web: list[httpx.Client] = []


@pytest.fixture(autouse=True)
def _shared(web: httpx.Client) -> None:
    _web[:] = [web]  # hypothesis takes no fixture of a function


def assert_no_fault(web: httpx.Client, path: str, body: bytes) -> None:
    answer = web.post(path, content=body, headers=JSON)
    assert answer.status_code < 500 or answer.json()["error"]["code"] == "timeout", answer.text
    assert "Traceback" not in answer.text


def test_no_lane_is_left_after_all_tests(server: Server) -> None:
    assert lanes(server) == 0
    assert server.running == 0
