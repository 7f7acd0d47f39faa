"""Tools are called with valid arguments, and structured answers are valid, on small models."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from langchain_core.tools import tool
from pydantic import BaseModel, Field

from langchain_marith import ChatMarith
from marith import Engine, Options

TEXTS = [
    "Ana Ruiz is a painter from Lisbon, aged 41.", "Tomas Berg from Oslo is a cook. He is 29.",
    "Eva Lind, 35, teaches in Vienna.", "In Porto lives the cook Rui Alves, who is 52 years old.",
]  # fmt: skip


class Trade(StrEnum):
    """What a person may be by trade."""

    PAINTER = "painter"
    COOK = "cook"
    TEACHER = "teacher"


class Home(BaseModel):
    """Where somebody lives."""

    city: str = Field(max_length=20)
    country: str | None = Field(max_length=20)


class Person(BaseModel):
    """A person that a text tells of."""

    name: str = Field(max_length=30)
    trade: Trade
    age: int = Field(ge=0, le=120)
    home: Home


@tool
def weather(city: str, days: int) -> str:
    """Say what the weather will be in a city, for some days."""
    return f"{days} days of sun in {city}"


def model(engine: Engine, terms: dict[str, str], **options: Any) -> ChatMarith:
    base: dict[str, str] = {"M": terms["M"]} if "M" in terms else {}
    return ChatMarith(engine=engine, terms=base, max_tokens=200, **options)


def test_structured_answers_are_valid(engine: Engine, terms: dict[str, str], timed: Any) -> None:
    asked = model(engine, terms, temperature=0.7).with_structured_output(
        Person, method="json_schema"
    )
    people = asked.batch([f"Who is this? {text}" for text in TEXTS])
    assert all(isinstance(person, Person) for person in people)
    timed(f"{len(people)} of {len(TEXTS)} answers valid, such as {people[0]}")


def test_a_tool_that_must_be_called_is_called_by_its_schema(
    engine: Engine, terms: dict[str, str], timed: Any
) -> None:
    asked = model(engine, terms, temperature=0).bind_tools([weather], tool_choice="weather")
    answer = asked.invoke("What will the weather be in Lisbon in the next 3 days?")
    assert answer.tool_calls
    for call in answer.tool_calls:
        assert call["name"] == "weather"
        assert weather.invoke(call["args"]).endswith(call["args"]["city"])
    timed(f"{answer.tool_calls[0]['args']}")


def test_a_banned_word_is_not_written(engine: Engine, terms: dict[str, str], timed: Any) -> None:
    base = {"M": terms["M"]} if "M" in terms else {}
    asked = Options(engine=engine, terms=base, temperature=0, max_tokens=24, ban=["moon"])
    text = asked.submit("Tell me about the moon.").result().text
    timed(f"without the word moon: {text!r}")
    assert "moon" not in text
