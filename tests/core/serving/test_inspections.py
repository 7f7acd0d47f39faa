"""Inspections over the wire: those of the engine, as data, within limits, and each key's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.http_server import BEARER, CHAT, KEYS, client, events, require_cancelled, served
from support.pocket_vectors import write_vector

import marith
from marith import Inspection, Options, Prompted
from marith.serving.server import Server
from marith.serving.server_settings import ServingLimits

FORMULA = "M - 0.5*rude + 0.3*kind"
TERMS = {"rude": "You are rude.", "kind": "You are kind."}
HOSTILE = "<script>alert('x')</script>\u202e\x1b]0;title\x07"
LIMITS = replace(ServingLimits(), inspected=400)
TALK = {"messages": CHAT, "model": "polite", "seed": 3, "temperature": 0.9}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("inspections")
    with served(folder, LIMITS, keys=KEYS, allow_formulas=True) as server:
        yield server


def post(web: httpx.Client, path: str, status: int = 200, **body: Any) -> Any:
    answer = web.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def require_close(one: Any, other: Any) -> None:
    """The same but for rounding: a pass of another shape rounds otherwise."""
    assert json.dumps(one, default=str) == json.dumps(other, default=str) or _close(one, other)


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_close(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return bool(one == pytest.approx(other, abs=2e-3))
    return bool(one == other)


@pytest.mark.parametrize("continuation", [" I am well.", [40, 50, 60]])
def test_an_inspection_is_the_engines(web: httpx.Client, continuation: Any) -> None:
    body = {"model": "polite", "messages": CHAT, "continuation": continuation, "top": 3}
    answer = web.post("/v1/inspect", json=body)
    inspection = answer.json()["inspection"]
    wanted = marith.inspect(Options().engine(), CHAT, continuation, FORMULA, TERMS, top=3)
    require_close(inspection, wanted.as_dict())
    assert Inspection.from_json(json.dumps(inspection)).formula == FORMULA


def test_texts_and_formulas_of_ones_own_are_inspected(web: httpx.Client) -> None:
    own = {"formula": "2*M - grim", "terms": {"grim": HOSTILE}}
    answer = post(
        web, "/v1/inspect", prompt="The sea", continuation=" is wide <b>", marith=own, top=2
    )
    inspection = answer["inspection"]
    assert inspection["formula"] == "2*M - grim"
    assert inspection["text"] == " is wide <b>"
    assert [term["names"] for term in inspection["terms"]] == [["M"], ["grim"]]
    assert answer["model"] == "pocket"


def test_hostile_texts_are_data(web: httpx.Client) -> None:
    own = {"formula": "2*M - grim", "terms": {"grim": HOSTILE}}
    asked = {"prompt": "The sea", "continuation": HOSTILE, "marith": own, "top": 2}
    answer = web.post("/v1/inspect", json=asked)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text.isascii(), "nothing that a terminal or an editor obeys"
    assert not any(ord(letter) < 32 for letter in answer.text)
    inspection = answer.json()["inspection"]
    assert inspection["text"] == HOSTILE
    assert HOSTILE.startswith("".join(each["text"] for each in inspection["positions"][:3]))
    assert inspection["terms"][1]["text"] == str(Prompted(HOSTILE))


@pytest.mark.parametrize("count", [1, 2])
def test_a_chat_has_the_inspection_of_each_choice(web: httpx.Client, count: int) -> None:
    body = {**TALK, "n": count, "max_tokens": 3, "marith": {"inspect": 2, "composition": True}}
    answer = web.post("/v1/chat/completions", json=body)
    whole = answer.json()
    inspections = whole["marith"]["inspection"]
    assert len(whole["marith"]["composition"]) == len(inspections) == count
    for choice, inspection in zip(whole["choices"], inspections, strict=True):
        assert inspection["text"] == choice["message"]["content"]
        assert inspection["top"] == 2
        tokens = [position["token"] for position in inspection["positions"]]
        again = post(web, "/v1/inspect", model="polite", messages=CHAT, continuation=tokens, top=2)
        require_close(again["inspection"], inspection)
    for usage in ({}, {"stream_options": {"include_usage": True}}):
        streamed = web.post("/v1/chat/completions", json={**body, **usage, "stream": True})
        chunks = events(streamed.text)
        having = [i for i, one in enumerate(chunks) if "inspection" in one.get("marith", {})]
        assert having == [len(chunks) - 1]
        require_close(chunks[having[0]]["marith"]["inspection"], inspections)
        assert "composition" in chunks[-1]["marith"]


def test_an_answer_goes_on_from_tokens_exactly(web: httpx.Client) -> None:
    chat = "/v1/chat/completions"
    whole = post(web, chat, **TALK, max_tokens=12, marith={"inspect": True})
    [inspection] = whole["marith"]["inspection"]
    tokens = [position["token"] for position in inspection["positions"]]
    for cut in (1, 5, 11):
        rest = post(
            web, chat, **TALK, max_tokens=12 - cut, marith={"prefix": tokens[:cut], "inspect": 1}
        )
        [of_rest] = rest["marith"]["inspection"]
        assert [position["token"] for position in of_rest["positions"]] == tokens[cut:]
        assert of_rest["positions"][0]["place"] == cut
        text = Options().engine().decode(tokens[:cut]) + rest["choices"][0]["message"]["content"]
        assert text.strip() == whole["choices"][0]["message"]["content"].strip()


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/v1/inspect", {"continuation": [5] * 41}, "at most 40 tokens, not 41"),
        ("/v1/inspect", {"continuation": [5] * 401, "top": 1}, "at most 400 tokens, not 401"),
        ("/v1/inspect", {"continuation": " a", "top": 21}, "less than or equal to 20, not 21"),
        ("/v1/inspect", {"continuation": [4096]}, "4096"),
        ("/v1/inspect", {"continuation": [5], "stream": True}, "does not stream"),
        ("/v1/inspect", {}, "'continuation' is missing"),
        ("/v1/chat/completions", {"marith": {"inspect": 21}}, "at most 20, not 21"),
        ("/v1/chat/completions", {"marith": {"prefix": [5000]}}, "5000"),
    ],
)
def test_requests_beyond_the_limits_are_refused_in_one_sentence(
    web: httpx.Client, path: str, body: dict[str, Any], problem: str
) -> None:
    error = post(web, path, 400, **{"messages": CHAT, **body})["error"]
    assert problem in error["message"]


def test_an_answer_that_is_inspected_is_as_long_as_may_be_inspected(web: httpx.Client) -> None:
    body = {"messages": CHAT, "ignore_eos": True, "seed": 1}
    chat = "/v1/chat/completions"
    for count, most in ((1, 20), (2, 10)):
        asked = {**body, "n": count, "marith": {"inspect": 20}}
        whole = post(web, chat, **asked, max_tokens=200)
        assert f"at most {most} tokens, not 200" in whole["marith"]["warnings"][0]
        assert whole["usage"]["completion_tokens"] == 400 // 20
        assert [len(one["positions"]) for one in whole["marith"]["inspection"]] == [most] * count
        assert post(web, chat, **asked)["choices"][0]["finish_reason"] == "length"


def test_without_allow_formulas_a_models_own_is_inspected(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("no_formulas")
    with served(folder, LIMITS, keys=KEYS) as server, client(server, headers=BEARER) as web:
        asked = {"model": "polite", "messages": CHAT, "continuation": " Well."}
        told = web.post("/v1/inspect", json=asked)
        hides(told)
        inspection = told.json()["inspection"]
        assert inspection["formula"] == FORMULA
        assert [term["text"] for term in inspection["terms"]] == ["M", "rude", "kind"]
        for own in ({"formula": "M"}, {"terms": {"a": "b"}}):
            for path in ("/v1/inspect", "/v1/chat/completions"):
                error = post(web, path, 400, **asked, marith=own)["error"]
                assert error["code"] == "formulas_not_allowed"
        with client(server) as stranger:
            assert post(stranger, "/v1/inspect", 401, **asked)


SECRET = """
[terms]
rude = "A secret."
[formulas]
named = "M - 0.5*union(rude, M)"
quoted = 'M - 0.5*union(prompted("A \\"secret\\" of 0.25"), M) + balance(rude, M)*0.25*rude'
"""


def hides(answer: httpx.Response) -> None:
    """Whether no text of a term is in the answer."""
    assert answer.status_code == 200, answer.text
    assert "secret" not in answer.text
    assert "You are" not in answer.text


@pytest.mark.parametrize("model", ["named", "quoted"])
def test_without_allow_formulas_no_text_of_a_term_is_revealed(tmp_path: Path, model: str) -> None:
    with served(tmp_path, LIMITS, SECRET) as server, client(server) as web:
        asked = {"model": model, "messages": CHAT, "seed": 3}
        hides(web.post("/v1/inspect", json={**asked, "continuation": " Well."}))
        own = {"inspect": 2, "composition": True}
        for stream in (False, True):
            chat = {**asked, "max_tokens": 3, "marith": own, "stream": stream}
            hides(web.post("/v1/chat/completions", json=chat))
        text = {"prompt": "A", "max_tokens": 3, "marith": own, "model": model, "logprobs": 1}
        told = web.post("/v1/completions", json=text)
        hides(told)
        [costs] = told.json()["marith"]["composition"]
        inner = ['prompted("…")'] * (model == "quoted")
        assert costs["terms"].keys() == costs["logprobs"].keys() >= {"M", *inner, "rude"}
        given = {"continuation": [7, 8], "number": 0, "values": [0.5, 5]}
        told = web.post("/v1/what_if", json={**asked, **given})
        hides(told)
        places = [(one["start"], one["end"]) for one in told.json()["numbers"]]
        numbers = [told.json()["formula"][start:end] for start, end in places]
        assert numbers == ["0.5", "0.25"][: 1 + (model == "quoted")]
        hides(web.post("/v1/explain", json={"model": model}))
        explained = web.post("/v1/explain", json={"model": model}).json()["numbers"]
        assert all(one.pop("values") for one in explained)  # of the page's sliders
        assert explained == told.json()["numbers"]
        hides(web.get("/v1/models"))


def test_a_client_that_disconnects_frees_its_lanes(server: Server) -> None:
    body = {"messages": CHAT, "model": "polite", "continuation": [7] * 400, "top": 1}
    require_cancelled(server, "/v1/inspect", body, "submit_inspection")


def test_what_follows_a_prefix_is_inspected(web: httpx.Client) -> None:
    asked = {"messages": CHAT, "model": "polite", "continuation": [7, 8, 9]}
    whole = post(web, "/v1/inspect", **asked)["inspection"]["positions"]
    rest = post(web, "/v1/inspect", **asked, marith={"prefix": [7, 8]})["inspection"]
    assert [position["place"] for position in rest["positions"]] == [2]
    require_close(rest["positions"], whole[2:])
    problem = post(web, "/v1/inspect", 400, **asked, marith={"prefix": [8]})["error"]["message"]
    assert problem == "the continuation must begin with the tokens of marith.prefix"


def test_leave_one_out_can_be_switched_off(web: httpx.Client) -> None:
    asked = {"messages": CHAT, "continuation": [7], "marith": {"formula": "M - union(kind, M)/2"}}
    asked["marith"]["terms"] = {"kind": TERMS["kind"]}  # type: ignore[index]
    for leave_one_out in (True, False):
        told = post(web, "/v1/inspect", **asked, leave_one_out=leave_one_out)
        kinds = {part["kind"] for part in told["inspection"]["parts"]}
        assert kinds == {"exact", *["leave_one_out"] * leave_one_out}


STEERED = """
[terms]
merry = {vectors = {"hidden.gguf" = 0.6}, positions = "answer"}
[formulas]
steered = "M + 0.5*(merry - M)"
"""


@pytest.mark.parametrize("allowed", [False, True])
def test_what_vectors_push_is_told_and_their_files_to_those_who_may_name_them(
    tmp_path: Path, allowed: bool
) -> None:
    file = write_vector(tmp_path / "hidden.gguf")
    term = Prompted(vectors=((str(file), 0.6),), positions="answer")
    wanted = marith.inspect(
        Options().engine(), CHAT, [40, 50], "M + 0.5*(merry - M)", {"merry": term}, top=3
    )
    with served(tmp_path, LIMITS, STEERED, allow_formulas=allowed) as server, client(server) as web:
        asked = {"model": "steered", "messages": CHAT, "continuation": [40, 50], "top": 3}
        told = post(web, "/v1/inspect", **asked)
        explained = post(web, "/v1/explain", model="steered")
    for one, other in zip(told["inspection"]["positions"], wanted.positions, strict=True):
        assert [view["vectors"] is None for view in one["terms"]] == [True, False]
        push = other.terms[1].vectors
        assert push is not None
        assert one["terms"][1]["vectors"]["push"] == pytest.approx(push.push, abs=2e-3)
        assert len(one["terms"][1]["vectors"]["raised"]) == 3
    [sentence] = explained["vectors"]
    name = repr(str(file)) if allowed else '"…"'
    where = "to the hidden states from the last token of the prompt on"
    assert sentence == f"merry adds 0.6 × {name} {where}"
    assert ("hidden.gguf" in json.dumps([told, explained])) == allowed
