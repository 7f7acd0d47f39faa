"""Banned words never appear: at either end, across tokens, with drafts, and in streams."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import speaker, tool
from support.languages import NESTED, REGULAR
from support.reference import Reference, first_banned
from support.small_engine import FlatTimes, assume_times
from support.strategies import weighty

import marith
from marith import Ban, Engine, Grammar, Plan, Prompted, Request, Sampling, Stop, Tools
from marith.answers import backtracking
from marith.answers.backtracking import Backtracking
from marith.answers.output import Output
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import tiny_model, tiny_tokenizer

ODD = ("a", "b", " ", "ab", "b a", ". A", "c", "ca.b")  # tokens that words begin and end within
SPEAKERS = (Prompted("ab c"), Prompted("c"), Prompted("a b a"))
PLANS = (Plan.drafts("ngram(order=3, online=True)", length=5), Plan.drafts(SPEAKERS[1], length=3))


def drafting(words: tuple[str, ...]) -> tuple[Engine, Reference]:
    """An engine over tokens of these words that drafts all it can; the reference beside it."""
    size, tokenizer = len(words) + 2, tiny_tokenizer(words)
    model = tiny_model(vocab=size, seed=11, sharpness=2.0)
    engine = Engine.load(model, tokenizer=tokenizer)
    assume_times(engine, FlatTimes)
    return engine, Reference({None: (model, Vocabulary(tokenizer, size))})


@pytest.fixture(scope="module")
def odd() -> Iterator[tuple[Engine, Reference]]:
    engine, reference = drafting(ODD)
    with engine:
        yield engine, reference


def said(engine: Engine, request: Request) -> tuple[str, list[int], str] | None:
    """What an engine says; None for an error, which is that nothing may be said."""
    chunks = []
    try:
        chunks += list(engine.submit(request))
    except marith.RequestError as error:
        assert "no answer is left" in str(error)
        assert not chunks
        return None
    tokens = [token for chunk in chunks for token in chunk.tokens]
    return "".join(chunk.text for chunk in chunks), tokens, str(chunks[-1].finish_reason)


def wanted(reference: Reference, request: Request, allowed: Any = None) -> Any:
    try:
        return reference.decode(request, allowed=allowed)
    except marith.RequestError:
        return None


words = st.lists(st.text("abcA .", min_size=1, max_size=3), max_size=5)
bans = st.builds(Ban, words, st.booleans(), st.booleans())


@given(
    formula=weighty(SPEAKERS).filter(lambda formula: "judge" not in str(formula)),
    ban=bans,
    seed=st.integers(0, 99),
    warped=st.sampled_from([(0.0, 1.0), (1.0, 1.0), (1.5, 0.9)]),
    stop=st.builds(Stop, st.integers(1, 12), st.sampled_from([(), ("b a",), ("ab", ".")])),
)
def test_a_seeded_text_equals_the_text_of_the_reference_decoder(
    odd: tuple[Engine, Reference], formula: Any, ban: Ban, seed: int, warped: Any, stop: Stop
) -> None:
    """With whatever drafts; without a temperature plans say the same too."""
    engine, reference = odd
    sampling = Sampling(warped[0], top_p=warped[1], seed=seed, repetition_penalty=1.1)
    request = Request("c ab c a c b", formula, None, sampling, stop, ban=ban)
    want = wanted(reference, request)
    for how in (None, "auto", *(() if warped[0] else PLANS)):
        assert said(engine, replace(request, speculation=how)) == want  # type: ignore[arg-type]


def test_no_banned_word_appears_under_any_plan(odd: tuple[Engine, Reference]) -> None:
    ban, rewinds = Ban(["a", "ab", "b c", "A."]), 0
    for seed in range(12):
        plan = (*PLANS, Plan.factors({SPEAKERS[0]: 3}))[seed % 3]
        sampling = Sampling(1.5, seed=seed)
        formula = 1.5 * SPEAKERS[0] - 0.5 * SPEAKERS[1] + SPEAKERS[2]
        request = Request("c ab c", formula, None, sampling, Stop(16), plan, ban=ban)
        out = odd[0].submit(request).result(60)
        assert first_banned(ban, out.text, ended=True) is None
        rewinds += out.stats.rewinds
    assert rewinds > 6


@pytest.mark.parametrize("how", [None, "auto"])
def test_a_text_obeys_its_grammar_and_its_ban(how: Any) -> None:
    engine, reference = drafting(tuple("abcdef"))
    terms, bans = {"x": "c d"}, (("ae", "ad", "c"), ("ab", "ac", "d"))
    with engine:
        for seed in range(8):
            language, ban = (REGULAR, NESTED)[seed % 2], Ban(bans[seed % 2], whole_words=False)
            request = Request(
                "a b", "M + 0.5*x.top_k(6)", terms, Sampling(1.3, seed=seed), Stop(10), how
            )
            request = replace(request, grammar=language.grammar, ban=ban)
            assert said(engine, request) == wanted(reference, request, language.allowed)


ENDS: list[tuple[str, Stop, Ban, str]] = [  # what is asked, and what is left of it
    ("(foo|bar) !", Stop(), Ban(["foo"]), "bar !"),
    ("!(foo|bar)", Stop(), Ban(["foo"]), "!bar"),
    ("!(foo|bar)(foo|bar)", Stop(4), Ban(["foo"]), "!bar"),
    ("!(foo|bar)ENDbar", Stop(strings=("END",)), Ban(["foo"]), "!bar"),
    ("!(foo|bar)", Stop(), Ban(["OO"], whole_words=False), "!bar"),
    ("!(foo bar foo|bar foo bar)", Stop(), Ban(["foo bar foo"]), "!bar foo bar"),
    ("!(東京|大阪)です", Stop(), Ban(["東京"], whole_words=False), "!大阪です"),
    ("!(東京|大阪)", Stop(), Ban(["東京"]), "!大阪"),
    ("!(a 🌍|b é)", Stop(), Ban(["🌍"]), "!b é"),
    ("(a(foo|go)|bfar)", Stop(), Ban(["foo", "go"], whole_words=False), "bfar"),
]


@pytest.mark.parametrize(("pattern", "stop", "ban", "left"), ENDS, ids=lambda each: str(each)[:40])
def test_a_banned_word_is_rolled_back_wherever_it_is(
    letters: Engine, pattern: str, stop: Stop, ban: Ban, left: str
) -> None:
    """A grammar of two texts, where the other is left; the last one by way of a dead end."""
    asked = Request("q", stop=stop, grammar=Grammar.regex(pattern), ban=ban)
    for seed in range(4):
        one = replace(
            asked, sampling=Sampling(5.0, seed=seed), speculation=(None, "auto")[seed % 2]
        )  # type: ignore[arg-type]
        out = letters.submit(one).result(60)
        assert out.text == left
        assert out.usage.completion_tokens == len(out.tokens)


def test_if_every_continuation_is_banned_the_text_ends_or_raises(letters: Engine) -> None:
    """The predecessor said words through the first token, and drew evenly where none was left."""
    for seed in range(4):
        every = Ban([chr(code) for code in range(32, 127)], whole_words=False)
        grammar = Grammar.regex("[a-c]{0,3}")
        out = letters.generate("q", sampling=Sampling(seed=seed), grammar=grammar, ban=every)
        assert (out.text, out.finish_reason) == ("", "stop")
        for pattern in ("[a-c]{1,3}", "foo bar|foo baz"):
            with pytest.raises(marith.RequestError, match="no answer is left"):
                letters.generate("q", grammar=Grammar.regex(pattern), ban=replace(every))


def test_a_text_that_is_rolled_back_too_often_raises(
    letters: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtracking, "MAX_REWINDS", 3)
    other = letters.submit(Request("q", stop=Stop(30), sampling=Sampling(seed=1)))
    with pytest.raises(
        marith.RequestError, match=r"the ban \['a', 'b', .* rewound the text more than 3 times"
    ):
        letters.generate(
            "q", grammar=Grammar.regex("[a-z]"), ban=Ban([*"abcdefghijklmnopqrstuvwxyz"])
        )
    assert other.result(60).tokens


def read(text: str, ban: Ban, family: str, tools: Tools | None = None) -> tuple[str, str] | None:
    """What stands before the token in which a banned word begins, and all that had been read."""
    known, request = speaker(family), Request("q", ban=ban, tools=tools)
    output = Output(request, known, 10**6, opened=False)
    taken = Backtracking(output, known.eos_ids, ban.words)
    tokens = known.encode(text, literal=False)
    for count, token in enumerate([*tokens, *known.eos_ids]):
        taken.allow(torch.zeros(1, known.size), None, [count], True)
        if (at := taken.take(token)) is not None:
            return known.spell(tokens[:at]), known.spell(tokens[: count + 1])
        taken.release()
    assert taken.output.finish_reason is not None
    return None


CALLS = Tools((tool("foo", foo="string"),))
CALL = '<tool_call>\n{"name": "foo", "arguments": {"foo": "foo"}}\n</tool_call>'
OPENED = '<tool_call>\n{"name": "'  # a call, if the name of a tool follows
FOO = Ban(["foo"])
THOUGHT = "<think>a\n</think>\n\n"
READ: list[tuple[str, str, Ban, tuple[str, str] | None]] = [
    ("thinking", "<think> a foo b</think>c", FOO, ("<think> a ", "<think> a foo b")),
    ("thinking", "<think>foo</think>c", FOO, ("<think>", "<think>foo</think>")),
    ("thinking special", f"{THOUGHT}foo.", FOO, (THOUGHT, f"{THOUGHT}foo.")),
    ("thinking", "<think>thin air</think>", Ban(["thin"]), ("<think>", "<think>thin a")),
    ("thinking", "<think>fo</think>o", FOO, None),
    ("thinking", "<think>a</think>b", Ban(["think"], whole_words=False), None),
    ("thinking", "<b>foo", Ban(["<b>foo"]), ("", "<b>foo")),
    ("none", "a 東京!", Ban(["東京"]), ("a ", "a 東京!")),
    ("hermes", f"foo{CALL}", FOO, ("", CALL.partition('{"foo')[0].join(["foo", ""]))),
    ("hermes", f"fo{CALL}", FOO, None),
    ("hermes", "a <tool_call> foo b", FOO, ("a <tool_call> ", "a <tool_call> foo ")),
    ("hermes", f"{OPENED}é", Ban(["name"]), (OPENED[:14], f"{OPENED}é")),
]


@pytest.mark.parametrize(("family", "text", "ban", "at"), READ, ids=lambda each: str(each)[:30])
def test_a_ban_applies_to_reasoning_but_not_to_marks_and_calls(
    family: str, text: str, ban: Ban, at: tuple[str, str] | None
) -> None:
    assert read(text, ban, family, CALLS if family == "hermes" else None) == at


async def test_generate_and_stream_give_the_same_text_and_stream_no_banned_word() -> None:
    """Where a text may end at each place, a stream lags by a token or two."""
    with Engine.load("pocket") as engine:
        asked: dict[str, Any] = {"sampling": Sampling(seed=3), "stop": Stop(48)}
        free = engine.generate("Tell me about a river.", **asked)
        common = sorted({word for word in re.findall(r"\w+", free.text) if len(word) > 2})[::2]
        asked["ban"] = Ban(common)
        out = engine.generate("Tell me about a river.", **asked)
        assert out.stats.rewinds > 0
        assert not {word.lower() for word in re.findall(r"\w+", out.text)} & {
            word.lower() for word in common
        }
        chunks = list(engine.stream("Tell me about a river.", **asked))
        achunks = [chunk async for chunk in engine.astream("Tell me about a river.", **asked)]
        again = await engine.agenerate("Tell me about a river.", **asked)
        assert len(chunks) > len(out.tokens) / 3
        for told in (chunks, achunks):
            assert "".join(chunk.text for chunk in told) == out.text == again.text
            assert [token for chunk in told for token in chunk.tokens] == out.tokens


@pytest.mark.parametrize("ban", ["foo", ["foo"], 5])
def test_a_ban_of_another_type_is_refused(ban: Any) -> None:
    with pytest.raises(marith.RequestError, match="ban must be a Ban, not"):
        Request("q", ban=ban)
