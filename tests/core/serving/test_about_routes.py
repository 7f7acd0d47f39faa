"""`/v1/recipes`, `/v1/explain`, and the fields of `/v1/models` for the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.http_server import BEARER, CHAT, KEYS, client, served

import marith
from marith.serving.server import Server

HOSTILE = '"><script>alert(1)</script>\u202e\x1b[2J'
NAME = 'it\'s \\"<script>\\"</script>'
PERSONAS = f"""
[terms]
rude = "You are rude."
odd = "{HOSTILE.replace(chr(27), chr(92) + "u001b").replace('"', chr(92) + '"')}"
[formulas]
polite = "M - 0.5*rude"
"{NAME}" = {{formula = "M + 0.25*odd", description = "<b>bold</b>"}}
retrieves = {{formula = "M", faithful_to = "Context: (.*)", ban = ["dog"], temperature = 0.5}}
"""


@pytest.fixture(scope="module")
def brings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("brings")
    with served(folder, personas=PERSONAS, allow_formulas=True) as server, client(server) as web:
        yield web


@pytest.fixture(scope="module")
def brings_none(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("brings_none")
    with served(folder, personas=PERSONAS, keys=KEYS) as server:
        yield server


def explain(web: httpx.Client, status: int = 200, **body: Any) -> Any:
    answer = web.post("/v1/explain", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_formula_is_explained_as_in_python(brings: httpx.Client) -> None:
    formula, terms = "2*M - 0.96*union(toxic,  M) + rude", {"toxic": "You are toxic."}
    answered = explain(brings, formula=formula, terms=terms)
    known = {**terms, "rude": "You are rude."}
    wanted = marith.Explanation.of(formula, known)
    assert answered["formula"] == wanted.formula == "2*M - 0.96*union(toxic, M) + rude"
    assert answered["normalised"] == wanted.normalised
    assert answered["weight"] == wanted.weight == "2.04"
    assert answered["warnings"] == [*wanted.warnings]
    assert [(one["depth"], one["text"]) for one in answered["tree"]] == [*wanted.tree]
    assert {one["name"]: one["text"] for one in answered["terms"]} == known
    numbers = [(one["index"], one["value"]) for one in answered["numbers"]]
    assert numbers == [(0, 2.0), (1, 0.96)]
    places = [answered["formula"][one["start"] : one["end"]] for one in answered["numbers"]]
    assert places == ["2", "0.96"]


@pytest.mark.parametrize(
    ("formula", "index", "lowest", "highest"),
    [
        ("2*rude - M", 0, 1.02, 4.0),
        ("M - 0.96*rude", 0, 0.0, 0.9984),
        ("M + 0*rude", 0, -0.99, 1.0),
        ("(M + rude).top_k(5)", 0, 1.0, 10.0),
        ("(M + rude).top_p(0.9)", 0, 0.009, 0.999),
        ("M - 0.5*rude - 0.4*rude", 1, 0.0, 0.496),
    ],
)
def test_each_number_has_the_values_that_a_slider_may_take(
    brings: httpx.Client, formula: str, index: int, lowest: float, highest: float
) -> None:
    number = explain(brings, formula=formula)["numbers"][index]
    values = number["values"]
    assert (len(values), values[10]) == (21, number["value"])
    assert values == sorted(values)
    assert (values[0], values[20]) == (lowest, highest)
    for value in values:
        changed = f"{formula[: number['start']]}{value:g}{formula[number['end'] :]}"
        explain(brings, formula=changed)


def test_of_very_many_numbers_the_first_have_values(brings: httpx.Client) -> None:
    formula = " + ".join(["M", *["0.1*rude"] * 60])
    numbers = explain(brings, formula=formula)["numbers"]
    assert [len(one.get("values", ())) for one in numbers] == [21] * 20 + [0] * 40


@pytest.mark.parametrize(
    ("formula", "terms", "text", "marked"),
    [
        ("M - 0.5*rood", {}, "M - 0.5*rood", "rood"),
        ("M + 2*(rude", {}, "M + 2*(rude", "("),
        ("0.5*M + é*'x'", {"é": "a"}, "0.5*M + é*'x'", "'x'"),
        (
            "M + a",
            {"a": {"formula": "ngram('/etc/passwd')"}},
            "ngram('/etc/passwd')",
            "ngram('/etc/passwd')",
        ),
        ("M + classifier('/etc')", {}, "M + classifier('/etc')", "classifier('/etc')"),
    ],
)
def test_a_fault_of_a_formula_has_its_position(
    brings: httpx.Client, formula: str, terms: dict[str, str], text: str, marked: str
) -> None:
    error = explain(brings, 400, formula=formula, terms=terms)["error"]
    assert (error["code"], error["param"]) == ("invalid_formula", "formula")
    own = {"messages": CHAT, "marith": {"formula": formula, "terms": terms}}
    of_chat = brings.post("/v1/chat/completions", json=own).json()["error"]
    assert of_chat == {**error, "param": "marith"}
    place = error["marith"]
    assert place["text"] == text
    assert text[place["start"] : place["end"]] == marked
    assert error["message"].startswith(place["problem"])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"formula": "M - M"}, "must add up to more than zero"),
        ({"formula": "M", "terms": {f"t{i}": "a" for i in range(17)}}, "16 terms"),
        ({"formula": "M", "terms": {"rude": "Be rude."}}, "cannot be redefined"),
    ],
)
def test_a_fault_without_a_position_is_a_sentence(
    brings: httpx.Client, body: dict[str, Any], problem: str
) -> None:
    error = explain(brings, 400, **body)["error"]
    assert error["code"] == "invalid_formula"
    assert problem in error["message"]


def test_terms_of_the_file_may_be_sent_as_they_are(brings: httpx.Client) -> None:
    terms = {"rude": "You are rude.", "own": "You are kind."}
    answered = explain(brings, model="polite", formula="M - rude/2 + own", terms=terms)
    assert {one["name"]: one["text"] for one in answered["terms"]} == terms


def test_hostile_texts_are_returned_as_data(brings: httpx.Client) -> None:
    name = NAME.replace('\\"', '"')
    answer = brings.get("/v1/models")
    card = next(one for one in answer.json()["data"] if one["id"] == name)
    assert card["marith"]["terms"]["odd"] == HOSTILE
    assert card["marith"]["description"] == "<b>bold</b>"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    answered = explain(brings, model=name)
    assert answered["formula"] == "M + 0.25*odd"
    assert answered["terms"] == [{"name": "odd", "text": HOSTILE}]
    fault = explain(brings, 400, formula=HOSTILE)["error"]
    assert fault["code"] == "invalid_formula"
    missing = explain(brings, 404, model="<script>")["error"]["message"]
    assert "'<script>'" in missing


def test_models_say_what_the_page_begins_from(brings: httpx.Client, brings_none: Server) -> None:
    listed = brings.get("/v1/models").json()
    assert listed["marith"] == {"version": marith.__version__, "allow_formulas": True}
    cards = {one["id"]: one["marith"] for one in listed["data"]}
    assert cards["polite"]["formula"] == "M - 0.5*rude"
    assert cards["polite"]["description"] == ""
    assert set(cards["polite"]["terms"]) == {"rude", "odd"}
    with client(brings_none, headers=BEARER) as web:
        listed = web.get("/v1/models").json()
        assert listed["marith"]["allow_formulas"] is False
        assert all("terms" not in one["marith"] for one in listed["data"])
        assert "terms" not in web.get("/v1/models/polite").json()["marith"]


def test_without_allow_formulas_a_model_alone_is_explained(brings_none: Server) -> None:
    with client(brings_none, headers=BEARER) as web:
        answered = explain(web, model="polite")
        assert answered["formula"] == "M - 0.5*rude"
        assert answered["terms"] == []
        assert "You are rude." not in web.post("/v1/explain", json={"model": "polite"}).text
        for brought in ({"formula": "M"}, {"terms": {"rude": "You are rude."}}):
            [name] = brought
            error = explain(web, 400, model="polite", **brought)["error"]
            assert error["code"] == "formulas_not_allowed"
            assert error["param"] == name
            assert f" the body has {name};" in error["message"]
            chat = {"messages": CHAT, "marith": brought}
            error = web.post("/v1/chat/completions", json=chat).json()["error"]
            assert error["param"] == "marith"
            assert f" the body has marith.{name};" in error["message"]


def test_recipes_are_calls_of_formula_text(brings: httpx.Client) -> None:
    answered = brings.get("/v1/recipes").json()
    by_name = {one["name"]: one for one in answered["data"]}
    assert by_name["dexperts"]["call"] == "dexperts(M, expert, anti_expert, 2, 0.9)"
    assert by_name["cfg"]["source"] == "Sanchez et al. (2023, arXiv 2306.17806, equation 7)."
    terms = {"unconditional": "a", "conditional": "b"}
    assert explain(brings, formula=by_name["cfg"]["call"], terms=terms)["weight"] == "1"
