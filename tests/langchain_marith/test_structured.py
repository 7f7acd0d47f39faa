"""Answers as objects: the schema is enforced while the text is made, and read back exactly."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import OutputParserException
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as OldBaseModel
from support.speaking_model import BERTH, SHIP, Make, knots, ring

import marith
from langchain_marith import ChatMarith

ASKED = "Who sails?"
ADA = {"name": "Ada", "age": 36}


class Sailor(BaseModel):
    """Someone who sails."""

    name: str
    age: int


class OldSailor(OldBaseModel):
    """Someone who sails."""

    name: str
    age: int


class DictSailor(TypedDict):
    """Someone who sails."""

    name: str
    age: int


SCHEMA = Sailor.model_json_schema()
NAMELESS = {k: v for k, v in SCHEMA.items() if k != "title"}
FUNCTION = {"name": "Sailor", "description": "x", "parameters": NAMELESS}
SCHEMAS: dict[str, tuple[Any, Any]] = {
    "pydantic": (Sailor, Sailor(**ADA)),
    "pydantic.v1": (OldSailor, OldSailor(**ADA)),
    "TypedDict": (DictSailor, ADA),
    "JSON schema": (SCHEMA, ADA),
    "JSON schema without a name": (NAMELESS, ADA),
    "function": (FUNCTION, ADA),
}
each_schema = pytest.mark.parametrize(("schema", "truth"), SCHEMAS.values(), ids=SCHEMAS)
Method = Literal["json_schema", "function_calling", "json_mode"]
each_method = pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])


@each_schema
@each_method
async def test_every_schema_is_answered_by_every_method(
    scripted: Make, schema: Any, truth: Any, method: Method
) -> None:
    model = scripted().with_structured_output(schema, method=method)
    assert model.invoke(ASKED) == await model.ainvoke(ASKED) == truth
    for strict in (True, False):
        again = scripted().with_structured_output(schema, method=method, strict=strict)
        assert again.invoke(ASKED) == truth


@each_method
def test_a_stream_gives_the_object_as_it_grows(scripted: Make, method: Method) -> None:
    model = scripted().with_structured_output(SCHEMA, method=method)
    grown = list(model.stream(ASKED))
    assert len(grown) > 1
    assert grown[-1] == model.invoke(ASKED)
    assert all(set(before) <= set(after) for before, after in zip(grown, grown[1:], strict=False))
    by_class = scripted().with_structured_output(Sailor, method=method)
    *_, last = by_class.stream(ASKED)
    assert last == by_class.invoke(ASKED)


class Wind(Enum):
    """Where the wind is from."""

    NORTH = "north"
    CALM = 0


@each_method
async def test_an_enum_is_answered_by_its_member(scripted: Make, method: Method) -> None:
    model = scripted().with_structured_output(Wind, method=method)
    member = model.invoke(ASKED)
    assert isinstance(member, Wind)
    assert await model.ainvoke(ASKED) == member
    *_, last = model.stream(ASKED)
    assert last == member
    raw = scripted().with_structured_output(Wind, method=method, include_raw=True).invoke(ASKED)
    assert (raw["parsed"], raw["parsing_error"]) == (member, None)
    cut = scripted(max_tokens=3).with_structured_output(Wind, method=method)
    with pytest.raises(OutputParserException, match="not a Wind: it was cut off"):
        cut.invoke(ASKED)


class Place(Enum):
    HARBOUR = (1, 2)
    BERTH = ((3, 4), "y")
    KEY = b"k"


@each_method
def test_an_enum_of_values_that_json_writes_otherwise_is_answered(
    scripted: Make, method: Method
) -> None:
    model = scripted().with_structured_output(Place, method=method)
    assert isinstance(model.invoke(ASKED), Place)
    *_, last = model.stream(ASKED)
    assert isinstance(last, Place)


class Ship(BaseModel):
    """A ship, which may tow another."""

    name: str
    tows: Ship | None = None


class Berth(BaseModel):
    """Where a ship lies, with all that pydantic writes into schemas."""

    kind: Literal["quay", "buoy"]
    ship: Ship | None = None
    depth: float | int | None = Field(default=None, description="in metres")
    flags: list[Literal["red", "green"]] = Field(default_factory=list, max_length=2)


@each_method
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_references_unions_and_recursion_are_followed(
    scripted: Make, method: Method, temperature: float
) -> None:
    model = scripted(temperature=temperature, seed=1, max_tokens=1500)
    cases: list[tuple[type[BaseModel], str, str]] = [
        (Berth, "Where does she lie?", BERTH),
        (Ship, "Which ship?", SHIP),
    ]
    for schema, asked, truth in cases:
        answer = model.with_structured_output(schema, method=method).invoke(asked)
        assert isinstance(answer, schema)
        assert answer == schema.model_validate_json(truth) or temperature


@each_method
def test_content_in_blocks_is_read_as_well(scripted: Make, method: Method) -> None:
    model = scripted(output_version="v1").with_structured_output(Sailor, method=method)
    assert model.invoke(ASKED) == [*model.stream(ASKED)][-1] == Sailor(**ADA)


def test_any_object_is_json_mode_without_a_schema(scripted: Make) -> None:
    assert scripted().with_structured_output(method="json_mode").invoke(ASKED) == ADA
    assert isinstance(scripted().with_structured_output(method="json_mode").invoke("Hello!"), dict)


@each_method
async def test_an_answer_that_was_cut_off_is_none(scripted: Make, method: Method) -> None:
    short = scripted(max_tokens=9)
    for schema in (Sailor, OldSailor, SCHEMA):
        model = short.with_structured_output(schema, method=method)
        with pytest.raises(OutputParserException, match="cut off at max_tokens"):
            model.invoke(ASKED)
        with pytest.raises(OutputParserException, match="cut off at max_tokens"):
            await model.ainvoke(ASKED)
    parts = short.with_structured_output(Sailor, method=method, include_raw=True).invoke(ASKED)
    assert parts["parsed"] is None
    assert isinstance(parts["parsing_error"], OutputParserException)
    assert parts["raw"].response_metadata["finish_reason"] == "length"


class Listener(BaseCallbackHandler):
    """Keeps the formats that tracers see."""

    def __init__(self) -> None:
        self.formats: list[Any] = []

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.formats.append(kwargs["options"].get("ls_structured_output_format"))


@each_method
def test_tracers_see_the_format(scripted: Make, method: Method) -> None:
    for schema in (Sailor, DictSailor, SCHEMA):
        listener = Listener()
        model = scripted().with_structured_output(schema, method=method)
        model.invoke(ASKED, config={"callbacks": [listener]})
        list(model.stream(ASKED, config={"callbacks": [listener]}))
        expected = {"kwargs": {"method": method}, "schema": convert_to_json_schema(schema)}
        assert listener.formats == [expected] * 2


def test_a_format_beside_tools_holds_the_answer_alone(scripted: Make) -> None:
    described = {"name": "Sailor", "schema": SCHEMA, "strict": True}
    format_ = {"type": "json_schema", "json_schema": described}
    model = scripted().bind_tools([knots, ring], response_format=format_)
    assert Sailor.model_validate_json(model.invoke(ASKED).text) == Sailor(**ADA)
    called = model.bind(tool_choice="ring", parallel_tool_calls=False).invoke(ASKED)
    assert [call["name"] for call in called.tool_calls] == ["ring"]


def test_a_grammar_may_be_given_for_a_call(scripted: Make) -> None:
    answer = scripted().invoke("Hello!", grammar=marith.Grammar.regex("(yes|no)"))
    assert answer.text in ("yes", "no")
    assert scripted().bind(grammar=marith.Grammar.lark('start: "aye"')).invoke("Hi").text == "aye"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "xml"}, "method is .*not 'xml'"),
        ({"schema": None}, "'json_schema' needs a schema"),
        ({"tools": []}, "takes no option 'tools'"),
        ({"schema": {"type": "oddity"}}, "oddity"),
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused_at_once(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        ChatMarith(model="/nowhere").with_structured_output(**{"schema": Sailor, **options})


class Bag(BaseModel):
    """A class with a set, whose schema says that no item comes twice."""

    tags: set[str] = Field(max_length=2)


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_a_class_with_a_set_is_a_schema(method: Any) -> None:
    chat = ChatMarith(model="pocket", max_tokens=200, seed=1)
    answer = chat.with_structured_output(Bag, method=method, include_raw=True).invoke("Hi!")
    parsed, error = answer["parsed"], answer["parsing_error"]
    assert isinstance(parsed, Bag) or "cut off" in str(error)
