"""What-ifs over the wire: the first flip is the regenerated one, and its memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from support.http_server import CHAT, KEYS, require_cancelled, served

from marith import Options
from marith.serving.server import Server
from marith.serving.server_settings import ServingLimits

WIDTH = 4096  # tokens of pocket
TERMS = 3  # M, rude and kind
POSITION = WIDTH * TERMS * 4  # bytes
LENGTH = 8
LIMITS = replace(ServingLimits(), what_if_bytes=2 * LENGTH * POSITION)
FORMULA = "M - 0.5*rude + 0.3*kind"
DRAWN = {"seed": 5, "temperature": 0.8, "top_p": 0.95}
TALK = {"messages": CHAT, "model": "polite", **DRAWN}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("what_ifs"), LIMITS, keys=KEYS, allow_formulas=True) as it:
        yield it


def post(web: httpx.Client, path: str, status: int = 200, **body: Any) -> Any:
    answer = web.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def made(web: httpx.Client, length: int = LENGTH, **more: Any) -> list[int]:
    """The tokens of an answer."""
    asked = {**TALK, "max_tokens": length, **more}
    asked["marith"] = {**asked.get("marith", {}), "inspect": 1}
    [inspection] = post(web, "/v1/chat/completions", **asked)["marith"]["inspection"]
    return [position["token"] for position in inspection["positions"]]


def differs(one: list[int], other: list[int]) -> int | None:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (left, right) in pairs if left != right), None)


def test_a_predicted_flip_occurs_in_the_regenerated_text(web: httpx.Client) -> None:
    tokens = made(web, ignore_eos=True)
    values = [0.5, 0.0, 0.2, 0.8, 0.95]
    asked = {**TALK, "ignore_eos": True, "continuation": tokens}
    answer = web.post("/v1/what_if", json={**asked, "number": 0, "values": values})
    answered = answer.json()
    assert answered["formula"] == FORMULA
    places = [FORMULA[one["start"] : one["end"]] for one in answered["numbers"]]
    assert places == ["0.5", "0.3"]
    assert answered["values"] == values
    assert answered["tokens"][0] == tokens
    assert answered["first_flip"][0] is None
    assert any(flip is not None for flip in answered["first_flip"])
    engine = Options().engine()
    for value, drawn, texts, flip in zip(
        values, answered["tokens"], answered["texts"], answered["first_flip"], strict=True
    ):
        formula = FORMULA.replace("0.5", str(value))
        again = made(web, ignore_eos=True, model="pocket", marith={"formula": formula})
        assert differs(tokens, again) == flip
        assert differs(tokens, drawn) == flip
        if flip is not None:
            assert drawn[flip] == again[flip]
        assert texts == [engine.spell([token]) for token in drawn]


def test_an_answer_after_a_prefix_has_its_flips_there(web: httpx.Client) -> None:
    prefix = made(web)[:3]
    tokens = [*prefix, *made(web, 2 * LENGTH - 3, marith={"prefix": prefix}, ignore_eos=True)]
    own = {"prefix": prefix}
    asked = {**TALK, "continuation": tokens, "ignore_eos": True, "number": 0}
    values = [0.5, 0.0, 0.2, 0.8, 0.99]
    answered = post(web, "/v1/what_if", **asked, values=values, marith=own)
    assert answered["tokens"][0] == tokens
    assert answered["first_flip"][0] is None
    assert any(flip is not None for flip in answered["first_flip"])
    for value, drawn, flip in zip(values, answered["tokens"], answered["first_flip"], strict=True):
        changed = {"prefix": prefix, "formula": FORMULA.replace("0.5", str(value))}
        again = made(web, 2 * LENGTH - 3, ignore_eos=True, model="pocket", marith=changed)
        assert drawn[:3] == prefix
        assert differs(tokens, [*prefix, *again]) == flip
        if flip is not None:
            assert drawn[flip] == [*prefix, *again][flip]


def test_a_value_that_has_no_meaning_is_refused_by_itself(web: httpx.Client) -> None:
    asked = {**TALK, "continuation": made(web), "number": 0}
    answered = post(web, "/v1/what_if", **asked, values=[0.5, 5, 0.4])
    assert [bool(one) for one in answered["refused"]] == [False, True, False]
    assert answered["tokens"][1] == answered["texts"][1] == []
    assert "more than zero" in answered["refused"][1]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"values": [0.1] * 22}, "at most 21 items after validation, not 22"),
        ({"number": 2}, "number"),
        ({"values": ["1"]}, "values.0"),
        ({"continuation": None}, "continuation"),
        ({"continuation": [5000]}, "5000"),
        ({"continuation": [7] * 2_000}, "there is room for"),
        ({"continuation": [7] * (2 * LENGTH + 1)}, "are kept"),
        ({"seed": None}, "has no seed"),
        ({"marith": {"ban": ["bad"]}}, "with a ban, tokens are rolled back"),
    ],
)
def test_requests_beyond_the_limits_are_refused_in_one_sentence(
    web: httpx.Client, body: dict[str, Any], problem: str
) -> None:
    asked = {**TALK, "continuation": [7, 8], "number": 0, "values": [0.1], **body}
    assert problem in post(web, "/v1/what_if", 400, **asked)["error"]["message"]


def test_a_client_that_disconnects_frees_its_lanes(server: Server) -> None:
    asked = {**TALK, "continuation": [7] * LENGTH * 2, "number": 0, "values": [0.5] * 21}
    require_cancelled(server, "/v1/what_if", asked, "submit_what_if")


@pytest.mark.parametrize(
    ("model", "problem"),
    [("polite", "from 0 to 1, not 9"), ("pocket", "the formula 'M' has no numbers")],
)
def test_a_number_is_checked_before_a_pass(
    server: Server, web: httpx.Client, model: str, problem: str
) -> None:
    steps = server.engines()[0].status().steps
    asked = {**TALK, "model": model, "continuation": [7, 8], "number": 9, "values": [0.5]}
    assert problem in post(web, "/v1/what_if", 400, **asked)["error"]["message"]
    assert server.engines()[0].status().steps == steps
