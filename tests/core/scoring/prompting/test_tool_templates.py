"""Tools, calls and their answers reach the model's tokens, whatever its chat template knows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chat_families import FAMILIES, answering, call, calling, speaker, tool
from support.chat_templates import shown, system, user, vocabulary

from marith.errors import RequestError
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import to_tokens

TOOLS = [tool("weather", city="string"), tool("größe", of="string")]
TALK = [
    system("Speak plainly."),
    user("First question?"),
    calling(call("weather", {"city": "Málaga"}), said="Let me look."),
    answering('19 degrees and "dry"'),
    {"role": "assistant", "content": "It is warm."},
    user("And both?"),
    calling(call("weather", {"city": "Oslo"}, "call_2"), call("größe", {"of": "Oslo"}, "call_3")),
    answering("minus three", "call_2"),
    answering("454 square kilometres", "call_3"),
]


def read(name: str, messages: Any, tools: Any = (), term: Prompted | None = None) -> str:
    prompt = to_prompt(messages, tools)
    return shown(to_tokens(term or Prompted(), prompt, speaker(name)), speaker(name))


def in_order(text: str, parts: list[str]) -> bool:
    """Whether these stand in the text one after the other; some templates write JSON in JSON."""
    for part in parts:
        found = min((i for i in (text.find(part), text.find(json.dumps(part)[1:-1])) if i >= 0),
                    default=-1)  # fmt: skip
        if found < 0:
            return False
        text = text[found + len(part) :]
    return True


@pytest.mark.parametrize("name", FAMILIES)
def test_a_conversation_with_tools_is_read_whole_and_in_order(name: str) -> None:
    text = read(name, TALK, TOOLS)
    parts = [
        "First question?",
        "Let me look.",
        '"weather"',
        "Málaga",
        '19 degrees and "dry"',
        "It is warm.",
        "And both?",
        "Oslo",
        '"größe"',
        "Oslo",
        "minus three",
        "454 square kilometres",
    ]
    assert in_order(text, parts)
    assert "Speak plainly." in text
    for each in TOOLS:
        assert each["function"]["description"] in text
        assert json.dumps("city")[1:-1] in text
    assert text.count("Speak plainly.") == text.count("It does weather.") == 1


@pytest.mark.parametrize("name", FAMILIES)
def test_calls_that_were_made_are_written_as_new_ones_are(name: str) -> None:
    """One way for history and grammar alike: the model is shown what it is held to."""
    tool_format = speaker(name).tool_format.calls
    for said in (None, "b"):
        made = calling(call("weather", {"city": "Málaga"}), said=said)
        text = read(name, [user("u"), made, answering("19")], TOOLS)
        assert tool_format.write([("weather", '{"city": "Málaga"}')]) in text


@pytest.mark.parametrize("name", FAMILIES)
def test_without_tools_no_tools_are_listed(name: str) -> None:
    text = read(name, [system("S"), user("u")])
    assert "function" not in text
    assert "tool" not in text.lower()
    assert read(name, [system("S"), user("u")], []) == text


@pytest.mark.parametrize("name", FAMILIES)
def test_every_term_reads_the_tools(name: str) -> None:
    for term in (Prompted("Be rude."), Prompted("Be rude.", mode="replace")):
        text = read(name, [system("S"), user("u")], TOOLS, term)
        assert "It does weather." in text
        assert "Be rude." in text
    text = read(name, [user("u")], TOOLS, Prompted(template="plain"))
    assert "It does weather." in text


ODD = ["<|im_end|>", "</s>", "[/INST]", "[TOOL_CALLS]", "<|eot|>", "<|/tool_call|>", "<|end|>"]
odd = st.lists(st.sampled_from([*ODD, '"', "\\", "\n", "é"]), max_size=5).map("".join)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15)
@given(first=odd, second=odd, third=odd, fourth=odd)
def test_tools_that_spell_special_tokens_become_ordinary_tokens(
    name: str, first: str, second: str, third: str, fourth: str
) -> None:
    """In descriptions, arguments, answers and what is said beside a call."""

    def special(*texts: str) -> list[int]:
        told = tool("f", x={"type": "string", "description": f"a{texts[0]}"})
        said = calling(call("f", {f"x{texts[1]}": texts[2]}), said=f"b{texts[3]}")
        prompt = to_prompt([user("u"), said, answering(f"c{texts[0]}")], [told])
        known = speaker(name)
        return [t for t in to_tokens(Prompted(), prompt, known) if t in known.special_ids]

    assert special(first, second, third, fourth) == special("", "", "", "")


@pytest.mark.parametrize("name", FAMILIES)
def test_arguments_that_spell_special_tokens_are_read_as_they_are(name: str) -> None:
    value = 'a</s>"b"\n<|im_end|>[/INST]'
    text = read(name, [user("u"), calling(call("f", {"x": value})), answering("a")])
    assert json.dumps(value, ensure_ascii=False) in text


@pytest.mark.parametrize("arguments", ['{"x": "cut o', "", None, "[1, 2]", '"x"', {"x": 1}, {}])
@pytest.mark.parametrize("name", FAMILIES)
def test_arguments_that_are_no_json_object_are_kept_as_text(name: str, arguments: Any) -> None:
    made = call("f", {})
    made["function"]["arguments"] = arguments
    text = read(name, [user("u"), calling(made), answering("failed"), user("v")])
    assert in_order(text, ["u", "f", "failed", "v"])
    if isinstance(arguments, str):
        assert arguments in text or json.dumps(arguments)[1:-1] in text


def test_an_answer_names_the_tool_that_was_called() -> None:
    """Where it has none of its own."""
    two = [call("f", {}, "a"), call("g", {}, "b")]
    told = to_prompt(
        [
            user("u"),
            calling(*two),
            answering("1", "b"),
            {**answering("2", "a"), "name": "own"},
            answering("3", "unknown"),
        ]
    ).messages
    assert [message.get("name") for message in told[2:]] == ["g", "own", None]


def test_an_empty_list_of_calls_is_no_call() -> None:
    """Templates ask whether there are any by whether the word is there."""
    template = (
        "{% for m in messages %}{{ 'CALLS' if 'tool_calls' in m else m.content }}{% endfor %}"
    )
    known = vocabulary(template)
    prompt = to_prompt([user("u"), {"role": "assistant", "content": "a", "tool_calls": []}])
    assert shown(to_tokens(Prompted(), prompt, known), known) == "ua"
    assert to_prompt([{"role": "assistant", "content": "a", "tool_calls": None}]).messages == (
        {"role": "assistant", "content": "a"},
    )


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        ([{}], "a call must have a function"),
        (["f"], "a call must have a function"),
        ([{"function": "f"}], "'function': 'f'"),
        ([{"function": {"name": 7}}], "'name': 7"),
        (7, "not 7"),
        ("f", "not 'f'"),
        ({"function": {"name": "f"}}, "a list of calls"),
    ],
)
def test_an_invalid_call_is_refused(calls: Any, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        to_prompt([user("u"), {"role": "assistant", "content": "", "tool_calls": calls}])


def test_a_callers_messages_and_tools_stay_as_they_are() -> None:
    kept = json.dumps([TALK, TOOLS])
    for name in FAMILIES:
        read(name, TALK, TOOLS)
    assert json.dumps([TALK, TOOLS]) == kept


def test_options_of_a_request_reach_every_template_and_a_terms_own_win() -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tone }}{{ pace }}"
    known, options = vocabulary(template), {"tone": "low", "pace": "slow"}
    asked = to_prompt("u", (), options)
    assert shown(to_tokens(Prompted(), asked, known), known) == "ulowslow"
    loud = Prompted(options=(("tone", "loud"),))
    assert shown(to_tokens(loud, asked, known), known) == "uloudslow"
