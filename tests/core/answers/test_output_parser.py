"""Text, reasoning and calls are separated, however an answer is cut and whatever calls contain."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import speaker

from marith.answers.output import joined
from marith.answers.output_parser import OutputParser, Piece
from marith.request.completion import CallChunk
from marith.scoring.prompting.tool_format import HERMES, THINKING, CallFormat, ToolFormat

LLAMA = CallFormat('{"name": "', '", "parameters": ', None, "}")
PHI = CallFormat(
    '<|tool_call|>[{"name": "', '", "arguments": ', '}, {"name": "', "}]<|/tool_call|>"
)
BARE = CallFormat("CALL ", " ", None, "")
MARKUPS = [HERMES, LLAMA, PHI, BARE, speaker("mistral ids").tool_format.calls]
NAMES = ["f", "f2", "größe", 'q"\\x']
Read = tuple[str, str, list[tuple[str, str]]]  # text, reasoning, calls


def parser(calls: CallFormat, thinks: bool = True, opened: bool = False) -> OutputParser:
    return OutputParser(ToolFormat(calls, thinking=THINKING if thinks else None), NAMES, opened)


def put_together(pieces: Sequence[Piece]) -> Read:
    """The text, the reasoning and the calls, put together from their pieces."""
    text = "".join(piece.text for piece in pieces if piece.kind == "text")
    thought = "".join(piece.text for piece in pieces if piece.kind == "reasoning")
    calls: list[tuple[str, str]] = []
    for chunk in call_chunks(pieces):
        if chunk.name is not None:
            assert chunk.index == len(calls)
            assert re.fullmatch(r"call_\w{24}", chunk.id or "")
            calls.append((chunk.name, chunk.arguments))
        else:
            assert chunk.id is None
            name, arguments = calls.pop(chunk.index)
            calls.append((name, arguments + chunk.arguments))
    return text, thought, calls


def call_chunks(pieces: Sequence[Piece]) -> list[CallChunk]:
    return [piece.call for piece in pieces if piece.call is not None]


def read(one: OutputParser, texts: Sequence[str]) -> Read:
    """All that a parser returns of a text that comes in pieces, each where its number says.

    Each kind that has begun ends once, behind all its characters.
    """
    pieces = [piece for text in texts for piece in one.feed(text)] + one.flush()
    whole, end = "".join(texts), 0
    for piece in pieces:
        if piece.kind != "call":
            assert piece.start >= end
            end = piece.start + len(piece.text)
            assert whole[piece.start : end] == piece.text
    texts = [piece for piece in pieces if piece.kind == "text"]
    for before, after in itertools.pairwise(texts):
        assert after.start == before.start + len(before.text)
    for kind in ("reasoning", "text"):
        lasts = [piece.last for piece in pieces if piece.kind == kind]
        assert lasts == [False] * (len(lasts) - 1) + [True] * bool(lasts)
    calls = joined(call_chunks(pieces))
    assert [(call.name, call.arguments) for call in calls] == put_together(pieces)[2]
    assert len({call.id for call in calls}) == one.calls
    return put_together(pieces)


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[a:b] for a, b in zip(ends, ends[1:], strict=False)]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6)
    | st.sampled_from(['"', "\\", "{[", "]}", '"}', "</tool_call>", '{"name": "f', "é🌊"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner,
                                                                 max_size=2),
    max_leaves=4,
)  # fmt: skip
arguments = st.dictionaries(st.text(max_size=4), values, max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)
calls = st.lists(st.tuples(st.sampled_from(NAMES), arguments), min_size=1, max_size=3)


def until_repeated(made: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The calls before the first that was made already."""
    ends = (i for i, call in enumerate(made) if call in made[:i])
    return made[: next(ends, len(made))]


@given(
    made=calls,
    before=st.sampled_from(["", "I look.", "a < b {", "é\n"]),
    thought=st.sampled_from([None, "", "Hm < {", "two\n\nlines"]),
    tool_format=st.sampled_from(MARKUPS),
    places=st.lists(st.integers(0, 200), max_size=12),
)
def test_a_written_answer_is_read_back(
    made: list[tuple[str, str]],
    before: str,
    thought: str | None,
    tool_format: CallFormat,
    places: list[int],
) -> None:
    """Names and arguments with quotes, braces, marks and letters of all scripts."""
    made = made if tool_format.joint is not None else made[:1]
    thinking = "" if thought is None else f"<think>\n{thought}\n</think>\n\n"
    text = thinking + before + tool_format.write(made)
    made = until_repeated(made)
    want = (before, thought or "", made)
    assert read(parser(tool_format), cut(text, places)) == want
    assert read(parser(tool_format), [text]) == want
    calls = joined(call_chunks(parser(tool_format).feed(text)))
    assert [call.parsed for call in calls] == [json.loads(arguments) for _, arguments in made]


def test_text_that_may_begin_a_mark_is_held_back_until_it_is_known() -> None:
    one = parser(HERMES, thinks=False)
    assert put_together(one.feed("a <tool_")) == ("a ", "", [])
    assert one.feed("call") == []
    assert put_together(one.feed(" is")) == ("<tool_call is", "", [])
    assert put_together(one.feed(" <")) == (" ", "", [])
    assert put_together(one.flush()) == ("<", "", [])


def test_arguments_are_returned_piece_by_piece() -> None:
    one = parser(HERMES, thinks=False)
    one.feed('<tool_call>\n{"name": "f", "arguments": ')
    assert [arguments_in(one.feed(text)) for text in ('{"x', '": "}', '"}', "}\n</tool")] == [
        '{"x',
        '": "}',
        '"}',
        "",
    ]


def arguments_in(pieces: list[Piece]) -> str:
    return "".join(chunk.arguments for chunk in call_chunks(pieces))


def test_a_call_is_found_after_text_that_only_looks_like_one() -> None:
    text = '{"name": "{"name": "f", "parameters": {}}'
    assert read(parser(LLAMA), list(text)) == ('{"name": "', "", [("f", "{}")])


def test_a_call_that_is_cut_off_is_returned_in_part() -> None:
    text = HERMES.write([("f", '{"x": [1, 2]}')])
    name = text.index("arguments") + len('arguments": ')
    for end in range(len(text) + 1):
        before, _, made = read(parser(HERMES, thinks=False), [text[:end]])
        assert before in text[: len(HERMES.opening) - 1]
        assert made == ([("f", '{"x": [1, 2]}'[: end - name])] if end >= name else [])


def test_if_only_calls_are_allowed_a_part_of_a_mark_is_no_text() -> None:
    for end in range(1, len(HERMES.opening)):
        one = OutputParser(ToolFormat(HERMES), NAMES, opened=False, has_text=False)
        assert read(one, [HERMES.opening[:end]]) == ("", "", [])


def test_nothing_follows_the_last_call() -> None:
    for tool_format in (HERMES, PHI, LLAMA):
        assert read(parser(tool_format), [tool_format.write([("f", "{}")]), "and", "more"]) == (
            "",
            "",
            [("f", "{}")],
        )


def test_without_tools_and_reasoning_their_marks_are_text() -> None:
    text = "<think>a</think>" + HERMES.write([("f", "{}")])
    assert read(OutputParser(ToolFormat(HERMES), [], False), list(text)) == (text, "", [])


@pytest.mark.parametrize(
    ("text", "opened", "before", "thought"),
    [
        ("<think>\nwhy\n</think>\n\nso", False, "so", "why"),
        (" \n<think>why</think>so", False, "so", "why"),
        ("why\n</think>\n\nso", True, "so", "why"),
        ("<think></think>so", False, "so", ""),
        ("<think>why", False, "", "why"),
        ("<think>a<think>b</think>c</think>d", False, "c</think>d", "a<think>b"),
        ("so <think>why</think>", False, "so <think>why</think>", ""),
        ("\n\n so", False, "\n\n so", ""),
        (" ", False, " ", ""),
        ("<thi", False, "<thi", ""),
        ("<thinner", False, "<thinner", ""),
    ],
)
def test_reasoning_is_found_only_at_the_beginning(
    text: str, opened: bool, before: str, thought: str
) -> None:
    assert read(parser(HERMES, True, opened), list(text)) == (before, thought, [])
