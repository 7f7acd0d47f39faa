"""Answers as objects: the schema is enforced while the text is made, and read back exactly."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Literal, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import OutputParserException
from langchain_core.load import dumpd
from langchain_core.runnables import RunnableBinding
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as OldBaseModel
from support.langchain_models import Make, knots, ring
from support.random_classes import Tree

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
# The forms in which OpenAI's API takes a schema.
ENVELOPE = {"name": "Sailor", "schema": NAMELESS, "strict": True}
ENVELOPES = (ENVELOPE, {"type": "json_schema", "json_schema": ENVELOPE})
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


class Place(Enum):
    """Values that JSON writes otherwise."""

    HARBOUR = (1, 2)
    BERTH = ((3, 4), "y")
    KEY = b"k"


@each_method
@pytest.mark.parametrize("kind", [Wind, Place])
async def test_an_enum_is_answered_by_its_member(
    scripted: Make, method: Method, kind: type[Enum]
) -> None:
    model = scripted().with_structured_output(kind, method=method)
    member = model.invoke(ASKED)
    assert isinstance(member, kind)
    assert await model.ainvoke(ASKED) == member
    *_, last = model.stream(ASKED)
    assert last == member
    raw = scripted().with_structured_output(kind, method=method, include_raw=True).invoke(ASKED)
    assert (raw["parsed"], raw["parsing_error"]) == (member, None)
    cut = scripted(max_tokens=3).with_structured_output(kind, method=method)
    with pytest.raises(OutputParserException, match=f"not a {kind.__name__}: it was cut off"):
        cut.invoke(ASKED)


@each_method
def test_content_in_blocks_is_read_as_well(scripted: Make, method: Method) -> None:
    model = scripted(output_version="v1").with_structured_output(Sailor, method=method)
    assert model.invoke(ASKED) == [*model.stream(ASKED)][-1] == Sailor(**ADA)


def test_any_object_is_json_mode_without_a_schema(scripted: Make) -> None:
    assert scripted().with_structured_output(method="json_mode").invoke(ASKED) == ADA
    assert isinstance(scripted().with_structured_output(method="json_mode").invoke("Hello!"), dict)


@each_method
async def test_an_answer_that_was_cut_off_is_refused(scripted: Make, method: Method) -> None:
    short = scripted(max_tokens=9)
    for schema in (Sailor, OldSailor, SCHEMA):
        model = short.with_structured_output(schema, method=method)
        with pytest.raises(OutputParserException, match=r"was cut off at max_tokens(\nFor|$)"):
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


def test_a_form_after_tools_is_refused_and_never_loses_them(scripted: Make) -> None:
    bound = scripted().bind_tools([knots, ring])
    for model in (bound, bound.bind(seed=1), bound.with_config(tags=["a"])):
        with pytest.raises(ValueError, match=r"leave out the tools .* llm.bind_tools\(tools, resp"):
            model.with_structured_output(Sailor)
    assert isinstance(bound, RunnableBinding)
    written = RunnableBinding(bound=scripted(), kwargs=bound.kwargs)
    assert dumpd(bound)["id"] == dumpd(written)["id"]
    assert bound.kwargs["tools"][0]["function"]["name"] == "knots"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "xml"}, "method is .*not 'xml'"),
        ({"schema": None}, "'json_schema' needs a schema"),
        (
            {"tools": []},
            r"takes no option 'tools'; .* llm.bind_tools\(tools, response_format=Person\)",
        ),
        ({"schema": {"type": "oddity"}}, "oddity"),
        *(
            (
                {"schema": envelope, "method": method},
                "which wraps a JSON schema; pass only the value",
            )
            for envelope in ENVELOPES
            for method in ("json_schema", "function_calling", "json_mode")
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_schema_that_cannot_be_followed_is_refused_at_once(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        ChatMarith(model="/nowhere").with_structured_output(**{"schema": Sailor, **options})


class Opening(BaseModel):
    """When a place opens."""

    place: Literal["pool", "museum"]
    hour: int = Field(ge=0, le=23)


PASSAGE = "The pool opens at 9."


def faithful_model(**options: Any) -> ChatMarith:
    """Cuts the formula to what it finds plausible, which leaves out most marks of JSON."""
    options = {"faithful": 0.25, "faithful_to": re.escape(PASSAGE), **options}
    return ChatMarith(model="pocket", temperature=0, max_tokens=80, **options)


@each_method
def test_a_schema_is_filled_from_the_passage_with_faithful(method: Method) -> None:
    schema: Any = Opening if method != "json_mode" else None
    read = faithful_model().with_structured_output(schema, method=method)
    found: Any = read.invoke(f"{PASSAGE} When does the pool open?")
    assert isinstance(found, dict if method == "json_mode" else Opening)


def test_a_tool_is_called_from_the_passage_with_faithful() -> None:
    model = faithful_model().bind_tools([Opening], tool_choice="any")
    [call] = model.invoke(f"{PASSAGE} When does the pool open?").tool_calls
    assert Opening(**call["args"])


@each_method
def test_a_union_is_read_although_its_tag_has_a_default(method: Method) -> None:
    chat = ChatMarith(model="pocket", temperature=1, seed=3, max_tokens=200)
    model = chat.with_structured_output(Tree, method=method)
    assert all(isinstance(answer, Tree) for answer in model.batch(["Name a tree."] * 3))
