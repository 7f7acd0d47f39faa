"""Stop strings end a text, and no part of one is returned, however the text is cut."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from support.chat_families import read_back, speaker, tool
from support.reference import before_stop

from marith import Engine, Request, Tools
from marith.answers.detectors import StopStringFilter
from marith.answers.output_parser import Piece
from marith.errors import RequestError
from marith.request.completion import CallChunk
from marith.request.stop import Stop

letters = st.text("abß", max_size=14)
stops = st.lists(st.text("abß", min_size=1, max_size=4), max_size=3).map(tuple)


def filter_of(strings: tuple[str, ...]) -> StopStringFilter:
    return StopStringFilter(Stop(strings=strings))


def cut(text: str, at: list[int]) -> list[str]:
    edges = [0, *sorted(min(i, len(text)) for i in at), len(text)]
    return [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]


@given(
    letters | st.text(max_size=14),
    stops | st.lists(st.text(min_size=1, max_size=6)).map(tuple),
    st.lists(st.integers(0, 14), max_size=6),
)
@example("abcd", ("abcd", "c"), [])
@example("x🌊\ud800", ("🌊\ud800", "\ud800"), [2])
def test_however_a_text_is_cut_it_ends_before_the_first_stop_string(
    text: str, strings: tuple[str, ...], at: list[int]
) -> None:
    one = filter_of(strings)
    out = "".join(one.feed(piece) for piece in cut(text, at))
    closed = one.found is not None
    assert (out + one.flush(), closed) == before_stop(text, strings)


@given(letters, stops, st.integers(0, 14), st.lists(st.integers(0, 14), max_size=6))
def test_a_stop_string_within_the_first_characters_is_text(
    text: str, strings: tuple[str, ...], exempt: int, at: list[int]
) -> None:
    one, out, start = filter_of(strings), "", 0
    one.exempt = exempt
    for part in cut(text, at):
        out += "".join(piece.text for piece in one.read([Piece("text", part, start)]))
        start += len(part)
    ends = [end for end in range(exempt + 1, len(text) + 1) if text[:end].endswith(strings)]
    if not ends:
        assert (out + one.flush(), one.found) == (text, None)
        return
    longest = max((s for s in strings if text[: ends[0]].endswith(s)), key=len)
    assert (out, one.found) == (text[: ends[0] - len(longest)], longest)


@given(letters, stops)
def test_returned_text_is_never_part_of_a_stop_string(text: str, strings: tuple[str, ...]) -> None:
    one, out = filter_of(strings), ""
    for end, letter in enumerate(text, start=1):
        out += one.feed(letter)
        assert text.startswith(out)
        for later in ("", "a", "b", "ß", "ab", "ba", "aba"):
            assert before_stop(text[:end] + later, strings)[0].startswith(out)


@given(letters, stops)
def test_text_is_held_back_only_while_it_may_begin_a_stop_string(
    text: str, strings: tuple[str, ...]
) -> None:
    one, out = filter_of(strings), ""
    for end, letter in enumerate(text, start=1):
        out += one.feed(letter)
        if one.found is None:
            held = text[len(out) : end]
            assert not held or any(string.startswith(held) for string in strings)


class CountedTree(dict[str, Any]):
    """A tree of stop strings that counts the characters that are looked up in any tree."""

    lookups = 0

    def __contains__(self, character: object) -> bool:
        CountedTree.lookups += 1
        return super().__contains__(character)

    @classmethod
    def copy_of(cls, tree: dict[str, Any]) -> CountedTree:
        return cls({character: cls.copy_of(below) for character, below in tree.items()})


def lookups(strings: list[str], text: str) -> int:
    """Return how many characters are looked up when a text without a stop string is searched."""
    stop = Stop(strings=tuple(strings))
    object.__setattr__(stop, "tree", CountedTree.copy_of(stop.tree))
    one, CountedTree.lookups = StopStringFilter(stop), 0
    assert "".join(map(one.feed, text)) + one.flush() == text
    return CountedTree.lookups


def test_the_work_for_a_character_does_not_grow_with_the_strings_or_with_the_text() -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=12)) + "!" for _ in range(30_000)]
    text = "".join(draw.choices("abcdefghijk ", k=3000))
    few, many, short = lookups(words[:10], text), lookups(words, text), lookups(words, text[:300])
    # The lower bound fails if a new search looks up nothing in the tree, and so is not counted.
    assert len(text) <= few <= many
    # About four characters of a random text agree with one of 30,000 random words.
    assert many <= 10 * len(text)
    assert many <= 11 * short


def test_too_many_characters_are_refused() -> None:
    with pytest.raises(RequestError, match=r"500,007 characters; at most 500,000"):
        Stop(strings=("word" * 125_000, "letters"))


def test_a_call_after_a_stop_string_is_not_returned() -> None:
    """Nor is one that the same token begins, since the next token's is not."""
    call = Piece("call", "", 9, call=CallChunk(0, "id", "f", ""))
    pieces = [Piece("text", "one EN", 0), Piece("text", "D two", 6, last=True), call]
    one = StopStringFilter(Stop(strings=("END",)))
    assert one.read(pieces) == [Piece("text", "one ", 0), Piece("text", "", 4, last=True)]
    assert StopStringFilter(Stop(strings=("no",))).read(pieces)[-1] == call


@pytest.mark.parametrize("family", ["chatml", "thinking special", "phi"])
def test_the_name_of_a_special_token_stops_at_the_token(family: str) -> None:
    """No text shows the token, so that a search of the text cannot find it."""
    known = speaker(family)
    for name in known.special_texts:
        if name in (known.tool_format.thinking or ()):
            continue
        tokens = [*known.encode("ab"), *known.encode(name, literal=False)]
        asked = Request("x", stop=Stop(strings=(name,)))
        answer = read_back(asked, known, tokens)
        assert (answer.text, answer.finish_reason) == ("ab", "stop")
        own = known.special_named([name]) <= known.eos_ids
        assert answer.stop_string == (None if own else name)
        in_letters = [*known.encode(f"ab{name}cd"), 1]
        assert read_back(asked, known, in_letters).text == "ab"
        longer = Request("x", stop=Stop(strings=(f"{name}c",)))
        assert read_back(longer, known, in_letters).text == "ab"


def test_a_stop_string_does_not_match_a_special_token_of_reasoning_or_calls() -> None:
    known = speaker("thinking special")
    tokens = [*known.encode("<think>j</think>ab", literal=False), 1]
    answer = read_back(Request("x", stop=Stop(strings=("</think>",))), known, tokens)
    assert (answer.reasoning, answer.text) == ("j", "ab")
    known = speaker("hermes special")
    made = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    asked = Request("x", stop=Stop(strings=("<tool_call>",)), tools=Tools([tool("f")]))
    answer = read_back(asked, known, [*known.encode(made, literal=False), 1])
    assert [call.name for call in answer.calls] == ["f"]
    without = replace(asked, tools=None)
    answer = read_back(without, known, [*known.encode(f"ab{made}", literal=False), 1][:3])
    assert (answer.text, answer.finish_reason) == ("ab", "stop")


def test_a_special_token_that_a_stop_string_names_ends_reasoning_too() -> None:
    known = speaker("thinking special")
    name = next(n for n in known.special_texts if n not in (known.tool_format.thinking or ()))
    tokens = known.encode(f"<think>j{name}", literal=False)
    answer = read_back(Request("x", stop=Stop(strings=(name,))), known, tokens)
    assert (answer.reasoning, answer.text, answer.finish_reason) == ("j", "", "stop")


def test_the_engine_stops_at_a_special_token() -> None:
    def forced(rows: Any, text: list[int], places: list[int]) -> Any:
        wanted = [[user if place == 4 else 300 + place] for place in places]
        only = torch.full_like(rows, -torch.inf)
        return only.scatter(1, torch.tensor(wanted), 0.0)

    with Engine.load("pocket") as engine:
        names = [engine.spell([token]) for token in range(engine.vocabulary_size)]
        user = names.index("<|user|>")
        asked = {"constraints": [forced], "max_tokens": 8}
        on, stopped = (engine.generate("x", **asked, stop=stop) for stop in ([], ["<|user|>"]))
        chunks = [*engine.stream("x", **asked, stop=["<|user|>"])]
    assert (len(on.tokens), on.finish_reason) == (8, "length")
    assert (stopped.tokens, stopped.finish_reason) == (on.tokens[:4], "stop")
    assert stopped.stop_string == "<|user|>"
    assert "".join(chunk.text for chunk in chunks) == stopped.text
    assert on.text.startswith(stopped.text)


def test_one_string_stands_for_a_tuple_of_one_string() -> None:
    assert Stop(strings="END").strings == ("END",)  # type: ignore[arg-type]  # taken as well
    assert Stop(strings=["a", "b"]).strings == ("a", "b")  # type: ignore[arg-type]  # taken as well


BAD: list[tuple[dict[str, Any], str]] = [
    *(({"max_tokens": v}, repr(v)) for v in (0, -1, 1.0, "5", True)),
    *(({"strings": v}, "''") for v in ("", [""], ("a", ""))),
    ({"strings": [5]}, "5"),
    ({"strings": ["a", None]}, "None"),
    ({"strings": 5}, "5"),
    ({"strings": None}, "None"),
]


@pytest.mark.parametrize(("given_", "says"), BAD, ids=[str(g) for g, _ in BAD])
def test_a_bad_value_is_refused_with_the_value(given_: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        Stop(**given_)
