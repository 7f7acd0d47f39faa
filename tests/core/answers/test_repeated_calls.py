"""A tool that is named is called once, and no answer has the same call twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.chat_families import speaker, tool

from marith import Engine, Sampling, Stop, Tools
from marith.answers.output import joined
from marith.answers.output_parser import OutputParser
from marith.scoring.prompting.tool_format import HERMES, ToolFormat
from marith.testing import scripted_model

COLD = Sampling(0.0)
LOOK, NOTE = tool("look", n={"type": "integer"}), tool("note", n={"type": "integer"})
ONE, TWELVE, OTHER = ("look", '{"n": 1}'), ("look", '{"n": 12}'), ("note", '{"n": 1}')
SCRIPT = [
    ("Again", HERMES.write([ONE] * 40)),
    ("In turn", "Well." + HERMES.write([ONE, OTHER, ONE, OTHER])),
    ("Longer", HERMES.write([ONE, TWELVE])),
    ("", "Well."),
]
CHOICES = pytest.mark.parametrize("choice", ["auto", "required"])


@pytest.fixture(scope="module")
def scripted() -> Iterator[Engine]:
    tokenizer = speaker("hermes").tokenizer
    with Engine.load(scripted_model(SCRIPT, tokenizer), tokenizer=tokenizer) as engine:
        yield engine


@CHOICES
@pytest.mark.parametrize(
    ("asked", "made"), [("Again", [ONE]), ("In turn", [ONE, OTHER]), ("Longer", [ONE, TWELVE])]
)
def test_a_repeated_call_ends_the_answer(
    scripted: Engine, choice: str, asked: str, made: list[tuple[str, str]]
) -> None:
    tools = Tools((LOOK, NOTE), choice)
    if choice == "required" and asked == "In turn":
        return  # it begins with text, which is not allowed
    out = scripted.generate(asked, sampling=COLD, tools=tools, stop=Stop(400))
    assert [(call.name, call.arguments) for call in out.calls] == made
    assert out.finish_reason == "tool_calls"
    chunks = list(scripted.stream(asked, sampling=COLD, tools=tools, stop=Stop(400)))
    told = joined([call for chunk in chunks for call in chunk.calls])
    assert [(call.name, call.arguments) for call in told] == made


def test_a_tool_that_tool_choice_names_is_called_once(scripted: Engine) -> None:
    for asked in ("Again", "Longer"):
        out = scripted.generate(asked, sampling=COLD, tools=Tools((LOOK, NOTE), "look"))
        assert [(call.name, call.arguments) for call in out.calls] == [ONE]
        assert out.finish_reason == "tool_calls"


def test_a_call_is_held_back_while_it_may_be_a_repetition() -> None:
    twice = HERMES.write([ONE, ONE])
    first = len(HERMES.write([ONE])) - len(HERMES.closing)
    one = OutputParser(ToolFormat(), ["look"], opened=False)
    assert len(one.feed(twice[:first])) > 1
    assert one.feed(twice[first:]) == []
    assert (one.repeated, one.calls, one.state) == (True, 1, "over")
    cut = OutputParser(ToolFormat(), ["look"], opened=False)
    cut.feed(twice[:first])
    assert cut.feed(twice[first : -len(HERMES.closing) - 3]) == []
    assert cut.flush(), "a call that is cut off is told"
