"""What a grammar allows as an answer: reasoning, then text, a form, or calls of tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import FAMILIES, answers, read_back, speaker, spelling, tool
from tokenizers import pre_tokenizers

from marith.answers.answer_grammar import answer_source
from marith.decoding.matcher import Compiled, Matcher
from marith.request.forms.grammar import Grammar
from marith.request.forms.tools import Tools
from marith.request.request import Request

END = 1
LOOK = tool("look", "at", at="string", times="integer")
PAIR = (LOOK, tool("größe-1"))
SHIP = Grammar.json_schema({"type": "object", "properties": {"ship": {"type": "string"}}})
SINGLE = [n for n in FAMILIES if speaker(n).tool_format.calls.joint is None]


def may(
    name: str,
    text: str,
    tools: Tools | None = None,
    grammar: Grammar | None = None,
    opened: bool | None = None,
    letters: bool = False,
) -> bool:
    """Whether an answer may be written token by token and end; in `letters` by those alone."""
    known = answers(name)
    opened = name == "opened" if opened is None else opened
    source = answer_source(tools, grammar, known.vocabulary.tool_format, opened, spelling(name))
    tokens = [*(spelt if letters else marked)(text, name), END]
    rows = Matcher(Compiled(source, known.lexicon)).allowed(tokens, range(len(tokens)))
    return all(bool(row[token]) for row, token in zip(rows, tokens, strict=True))


def marked(text: str, name: str) -> list[int]:
    """A text whose marks are the tokens that a model has for them."""
    return speaker(name).encode(text, literal=False)


def spelt(text: str, name: str) -> list[int]:
    """A text in letters alone."""
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    known = speaker(name).raw
    return [known.token_to_id(letter) for piece, _ in pieces for letter in piece]


def calls(name: str, *pairs: tuple[str, str]) -> str:
    """Calls as a family writes them, behind its thoughts where they have been opened."""
    return thought(name) + speaker(name).tool_format.calls.write(pairs)


def thought(name: str) -> str:
    return "Hm.\n</think>\n\n" if name == "opened" else ""


ONE, OTHER = ("look", '{"at": "a \\"}\\" é"}'), ("größe-1", "{}")
EVERY = pytest.mark.parametrize("name", FAMILIES)


@EVERY
def test_where_calls_are_free_an_answer_is_text_or_calls_or_both(name: str) -> None:
    tools = Tools(PAIR)
    for said in ("", "Hello. é🌊\n", 'a <b> [c] {d} "name": <tool', '{"name"', "[TOOL", "<|"):
        assert may(name, thought(name) + said, tools)
        assert may(name, thought(name) + said + speaker(name).tool_format.calls.write([ONE]), tools)


@EVERY
def test_after_a_call_comes_another_or_the_end(name: str) -> None:
    tools = Tools(PAIR)
    assert may(name, calls(name, ONE, OTHER), tools) == (name not in SINGLE)
    assert may(name, calls(name, OTHER, ONE, ONE), tools) == (name not in SINGLE)
    assert not may(name, calls(name, ONE) + "and", tools)
    assert not may(name, calls(name, ONE) + "\n", tools)


@EVERY
def test_without_parallel_calls_an_answer_has_at_most_one_call(name: str) -> None:
    tools = Tools(PAIR, "required", parallel=False)
    assert may(name, calls(name, ONE), tools)
    assert not may(name, calls(name, ONE, OTHER), tools)


@EVERY
def test_where_calls_are_required_an_answer_is_nothing_else(name: str) -> None:
    tools = Tools(PAIR, "required")
    assert may(name, calls(name, ONE), tools)
    assert may(name, calls(name, OTHER), tools)
    assert not may(name, thought(name) + "Hello.", tools)
    assert not may(name, thought(name), tools)
    assert not may(name, thought(name) + "So: " + calls("stern", ONE), tools)


@EVERY
def test_the_named_tool_is_the_one_that_is_called(name: str) -> None:
    tools = Tools(PAIR, "größe-1")
    assert may(name, calls(name, OTHER), tools)
    assert not may(name, calls(name, ONE), tools)
    assert not may(name, thought(name) + "Hello.", tools)


@EVERY
def test_where_calls_are_forbidden_an_answer_is_text(name: str) -> None:
    tools = Tools(PAIR, "none")
    assert may(name, thought(name) + "Hello {", tools)
    assert not may(name, calls(name, ONE), tools)
    assert may(name, thought(name) + '{"ship": "Argo"}', tools, SHIP)
    assert not may(name, calls(name, ONE), tools, SHIP)


@EVERY
def test_where_calls_are_forbidden_no_spelling_of_a_call_is_text(name: str) -> None:
    """A model that has read calls also writes them without the white space of its template."""
    tools = Tools(PAIR, "none")
    tag = speaker(name).tool_format.calls.opening.partition("{")[0].strip().removesuffix("[")
    if not tag:  # a call is but JSON
        return
    for rest in ("", '{"name": "look"', '\n{"name":"look"', ' [{"look": {}}]', "\n<function=look>"):
        for said in ("", "I look. "):
            assert may(name, thought(name) + said + rest + ".", tools)
            assert not may(name, thought(name) + said + tag.strip() + rest, tools)


@EVERY
@pytest.mark.parametrize(
    "wrong",
    [
        ("look", "{}"),
        ("look", '{"at": 7}'),
        ("look", '{"at": "a", "more": 1}'),
        ("look", '{"times": 1}'),
        ("look", '{"at":"a"}'),
        ("look", '["a"]'),
        ("look", '{"at": "a"'),
        ("hear", "{}"),
        ("größe-1", '{"at": "a"}'),
        ("", "{}"),
    ],
)
def test_no_other_tool_is_called_and_none_with_wrong_arguments(
    name: str, wrong: tuple[str, str]
) -> None:
    for choice in ("auto", "required"):
        assert not may(name, calls(name, wrong), Tools(PAIR, choice))


@EVERY
def test_with_tools_and_a_grammar_the_answer_is_calls_or_follows_it(name: str) -> None:
    assert may(name, thought(name) + '{"ship": "Argo"}', Tools(PAIR), SHIP)
    assert may(name, calls(name, ONE), Tools(PAIR), SHIP)
    assert not may(name, thought(name) + "Argo", Tools(PAIR), SHIP)
    assert not may(name, thought(name) + "x" + calls("stern", ONE), Tools(PAIR), SHIP)
    assert not may(name, thought(name) + '{"ship": "Argo"}', Tools(PAIR, "required"), SHIP)


@EVERY
@pytest.mark.parametrize("key", ["name", "na", "names", "arguments", "parameters"])
def test_json_that_begins_like_a_call_may_continue_as_json(name: str, key: str) -> None:
    """Some models mark calls by nothing but their first key."""
    told = Grammar.json_schema({"properties": {key: {"type": "string"}, "z": {"type": "null"}}})
    for value in ("look", "loo", "looks", "Ada"):
        for text in (f'{{"{key}": "{value}"}}', f'{{"{key}": "{value}", "z": null}}'):
            assert may(name, thought(name) + text, Tools(PAIR), told)
            assert heard(name, thought(name) + text, Tools(PAIR)) == (text, [])
    assert may(name, calls(name, ONE), Tools(PAIR), told)
    assert may(name, calls(name, OTHER), Tools(PAIR), Grammar.json_object())


def heard(name: str, text: str, tools: Tools) -> tuple[str, list[tuple[str, str]]]:
    """What is said in a text, and what it calls."""
    tokens = [*marked(text, name), END]
    out = read_back(Request("u", tools=tools), speaker(name), tokens, name == "opened")
    return out.text, [(call.name, call.arguments) for call in out.calls]


@EVERY
@pytest.mark.parametrize(
    ("grammar", "right", "wrong"),
    [
        (SHIP, '{"ship": "Ärgo"}', '{"ship": 1}'),
        (Grammar.regex("[ab]+|é"), "abba", "abc"),
        (Grammar.lark('start: "(" start ")" | "x"'), "((x))", "((x)"),
    ],
)
def test_without_tools_an_answer_follows_the_grammar(
    name: str, grammar: Grammar, right: str, wrong: str
) -> None:
    assert may(name, thought(name) + right, None, grammar)
    assert not may(name, thought(name) + wrong, None, grammar)
    assert not may(name, thought(name) + "Here: " + right, None, grammar)


@pytest.mark.parametrize("name", ["thinking", "thinking special"])
def test_reasoning_is_free_and_comes_first(name: str) -> None:
    mind = "<think>\nIs it {? " + '{"ship": 1}' + "\n</think>\n\n"
    for tools, grammar, right in (
        (None, SHIP, '{"ship": "Argo"}'),
        (Tools(PAIR, "required"), None, calls(name, ONE)),
        (Tools(PAIR), None, "Well. " + calls(name, ONE)),
    ):
        assert may(name, right, tools, grammar)
        assert may(name, mind + right, tools, grammar)
        assert not may(name, "<think>Hm" + right, tools, grammar) or grammar is None
        assert not may(name, calls(name, ONE) + mind + right, tools, grammar)


def test_reasoning_that_the_prompt_has_begun_has_to_end() -> None:
    for tools, grammar, right in (
        (None, SHIP, '{"ship": "Argo"}'),
        (Tools(PAIR, "required"), None, speaker("opened").tool_format.calls.write([ONE])),
    ):
        assert may("opened", "Hm.</think>" + right, tools, grammar)
        assert may("opened", "</think>" + right, tools, grammar)
        assert not may("opened", right, tools, grammar)


@EVERY
def test_a_call_whose_marks_are_written_in_letters_is_not_accepted(name: str) -> None:
    """Where a mark is a token of its own, its letters may be copied, but not to the end."""
    call = speaker(name).tool_format.calls.write([("look", '{"at": 7}')])
    assert not may(name, thought(name) + call, Tools(PAIR), letters=name != "opened")
    assert may("hermes", "The mark <tool_call> is", Tools(PAIR), letters=True)


said = st.lists(
    st.sampled_from(["<tool_call>", "\n", '{"name": "', "look", '", "arguments": ', "{", "}",
                     '"at": "a"', "</tool_call>", "[TOOL_CALLS] [", "<|tool_call|>[", "]", "a",
                     '", "parameters": ', "{}", "größe-1", "<think>", "</think>"]),
    max_size=12,
).map("".join)  # fmt: skip


@EVERY
@given(text=said, choice=st.sampled_from(["auto", "required", "none"]), letters=st.booleans())
def test_every_accepted_answer_calls_known_tools_with_valid_arguments(
    name: str, text: str, choice: str, letters: bool
) -> None:
    """What the grammar lets be written and what is read in it agree."""
    tools = Tools(PAIR, choice)
    if not may(name, text, tools, letters=letters):
        return
    tokens = [*(spelt if letters else marked)(text, name), END]
    out = read_back(Request("u", tools=tools), speaker(name), tokens, name == "opened")
    called = [(call.name, call.arguments) for call in out.calls]
    assert out.finish_reason == ("tool_calls" if called else "stop")
    assert bool(called) >= (choice == "required")
    assert not (called and choice == "none")
    for each in called:
        assert may(name, calls(name, each), Tools(PAIR, "required"))


def test_without_tools_and_grammar_an_answer_is_unconstrained() -> None:
    known = answers("hermes")
    assert known.compiled(Request("u"), opened=False) is None
    assert known.compiled(Request("u", grammar=SHIP), opened=False) is not None
