"""Tokens become chunks, also after copies and rollbacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import read_back, speaker, tool
from support.reference import before_stop, first_banned

from marith.answers.backtracking import Backtracking
from marith.answers.output import Output
from marith.request.ban import Ban
from marith.request.completion import Chunk, Completion, TokenLogprob
from marith.request.forms.tools import Tools
from marith.request.request import Request
from marith.request.stop import Stop
from marith.scoring.prompting.tokenizer import Vocabulary

END = 1
FAMILIES = ("none", "hermes", "hermes special", "thinking", "thinking special", "opened", "llama")
TOOLS = Tools((tool("foo", foo="string"), tool("größe")))
CALL = ("foo", '{"foo": "a \\" é"}')
PARTS = ("foo", "fo", "o ", "a b", " ", "\n", "é", "東京", "👩", "END", "EN", "<think>", "</think>",
         "<tool_call>", '{"name": "', "}", ".", "CALL")  # fmt: skip
WRITTEN = [text.encode() for text in (*PARTS, "é東foo END<think>.</think>\n\na", '"}', '", "')]
TORN = tuple(sorted({text[at : at + n] for text in WRITTEN for at in range(len(text))
                     for n in (2, 3, 5)} - {text[-1:] for text in WRITTEN}))  # fmt: skip
stops = st.sampled_from([(), ("END",), ("東京", "N"), ("o E", "ND<")])
banned = st.sampled_from(["foo", "a b", "oo", "京", "é", "o\n", "b", "think", "END", "name"])
bans = st.builds(Ban, st.lists(banned, min_size=1, max_size=4), st.booleans())


def vocabulary_of(family: str) -> Vocabulary:
    return speaker(family, tuple(data for data in TORN if len(data) > 1))


@st.composite
def token_lists(draw: st.DrawFn, family: str) -> list[int]:
    """Tokens of texts, marks and calls, and some that are torn from a character or a mark."""
    vocabulary = vocabulary_of(family)
    tokens: list[int] = []
    for part in draw(st.lists(st.sampled_from(PARTS), max_size=12)):
        text = vocabulary.tool_format.calls.write([CALL]) if part == "CALL" else part
        encoded = vocabulary.encode(text, literal=draw(st.integers(0, 4)) == 0)
        count = draw(st.integers(1, len(encoded))) if draw(st.integers(0, 5)) == 0 else None
        tokens += encoded[:count]
    return [token for token in tokens if token not in vocabulary.eos_ids]


@st.composite
def joined_anew(draw: st.DrawFn, family: str, tokens: list[int]) -> list[int]:
    """Other tokens of the same bytes: some that follow each other become one."""
    raw, again = vocabulary_of(family).raw, list[int]()
    at = 0
    while at < len(tokens):
        count = draw(st.sampled_from([1, 2, 3, 5]))
        name = "".join(str(raw.id_to_token(token)) for token in tokens[at : at + count])
        merged = raw.token_to_id(name) if count > 1 else None
        again.append(tokens[at] if merged is None else merged)
        at += 1 if merged is None else count
    return again


@st.composite
def answers(draw: st.DrawFn, ban: bool = False) -> tuple[str, Request, list[int]]:
    """A family, a request to it, and the tokens of an answer."""
    family = draw(st.sampled_from(FAMILIES))
    tools = draw(st.sampled_from([None, TOOLS])) if family != "none" else None
    stop = Stop(strings=draw(stops))
    request = Request("u", stop=stop, tools=tools, ban=draw(bans) if ban else None, logprobs=0)
    return family, request, draw(token_lists(family))


def output_of(family: str, request: Request, most: int = 10**6) -> Output:
    return Output(request, vocabulary_of(family), most, family == "opened")


def likely(token: int) -> TokenLogprob:
    """A log-probability that shows whose it is."""
    return TokenLogprob(token, "", b"", -float(token))


def shape(chunk: Chunk | None) -> Any:
    """A chunk without the numbers of its calls, which are random."""
    return chunk and replace(chunk, calls=tuple(replace(call, id=None) for call in chunk.calls))


def read_on(output: Output, tokens: Iterable[int]) -> list[Any]:
    """What each token brings, until the answer has ended."""
    return [
        shape(output.take(token, None if token == END else likely(token)))
        for token in tokens
        if output.finish_reason is None
    ]


def ended(family: str, request: Request, tokens: list[int]) -> Completion:
    """The completion of these tokens and an end; what follows a stop string is not taken."""
    output, taken = output_of(family, request), list[int]()
    for token in [*tokens, END]:
        if output.finish_reason is None:
            output.take(token)
            taken.append(token)
    return read_back(request, vocabulary_of(family), taken, family == "opened")


@given(answers(), st.data())
def test_the_content_does_not_depend_on_how_the_text_is_tokenized(
    asked: tuple[str, Request, list[int]], data: Any
) -> None:
    family, request, tokens = asked
    others = data.draw(joined_anew(family, tokens))
    one, other = ended(family, request, tokens), ended(family, request, others)
    for name in ("text", "reasoning", "finish_reason", "stop_string"):
        assert getattr(one, name) == getattr(other, name)
    assert [(call.name, call.arguments) for call in one.calls] == [
        (call.name, call.arguments) for call in other.calls
    ]


@given(answers(), st.data())
def test_no_part_of_a_stop_string_is_returned(
    asked: tuple[str, Request, list[int]], data: Any
) -> None:
    """However its characters are torn into tokens, and wherever the text is cut into chunks."""
    family, request, tokens = asked
    tokens = data.draw(joined_anew(family, tokens))
    free = ended(family, replace(request, stop=Stop()), tokens)
    out = ended(family, request, tokens)
    assert (out.text, out.stop_string is not None) == before_stop(free.text, request.stop.strings)


@given(answers(ban=True), st.data())
def test_a_copy_reads_on_independently(asked: tuple[str, Request, list[int]], data: Any) -> None:
    family, request, tokens = asked
    others = data.draw(token_lists(family))
    at = data.draw(st.integers(0, len(tokens)))
    output = output_of(family, request)
    before = read_on(output, tokens[:at])
    copied = output.copy()
    assert before + read_on(copied, [*others, END]) == read_on(
        output_of(family, request), [*tokens[:at], *others, END]
    )
    assert before + read_on(output, [*tokens[at:], END]) == read_on(
        output_of(family, request), [*tokens, END]
    )


def driven(family: str, request: Request, tokens: Iterable[int]) -> tuple[list[Chunk], int]:
    """The chunks of an answer that is offered these tokens in turn, and its rewinds.

    In place of a token that may not stand, and after the last one, it ends.
    """
    vocabulary, offered = vocabulary_of(family), iter(tokens)
    output = output_of(family, request, 400)
    backtracking = Backtracking(output, vocabulary.eos_ids, [])
    chunks: list[Chunk] = []
    while not (chunks and chunks[-1].finish_reason):
        place, token = backtracking.output.count, next(offered, END)
        may = backtracking.allow(torch.zeros(1, vocabulary.size), None, [place], True)
        token = token if may is None or may[0, token] else END
        backtracking.take(token, None if token == END else likely(token))
        chunks += backtracking.release()
    return chunks, backtracking.count


@given(answers(ban=True), st.data())
def test_after_a_rollback_the_output_equals_that_of_the_kept_tokens(
    asked: tuple[str, Request, list[int]], data: Any
) -> None:
    """Chunk by chunk, log-probabilities included; and nothing banned stands in it."""
    family, request, tokens = asked
    chunks, _ = driven(family, request, data.draw(joined_anew(family, tokens)))
    kept = [token for chunk in chunks for token in chunk.tokens]
    fresh = output_of(family, replace(request, ban=None), 400)
    assert list(map(shape, chunks)) == [chunk for chunk in read_on(fresh, [*kept, END]) if chunk]
    assert [one.token for chunk in chunks for one in chunk.logprobs] == kept
    assert request.ban is not None
    for text in ("".join(c.text for c in chunks), "".join(c.reasoning for c in chunks)):
        assert first_banned(request.ban, text, ended=True) is None
