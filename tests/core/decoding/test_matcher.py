"""Which tokens may follow: that depends on the text alone, whatever the vocabulary is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import speaker
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import equal
from transformers import AutoTokenizer

from marith.decoding.matcher import CANNOT_WRITE, Compiled, Lexicon, Matcher
from marith.errors import RequestError
from marith.request.forms.grammar import Grammar
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.loader import locate
from marith.testing import tiny_tokenizer

PERSON = Grammar.json_schema(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
)
WRITTEN = '{"name": "Zoë 🌊", "age": 36}'


@cache
def byte_level() -> tuple[Any, int, list[int]]:
    return speaker("chatml").raw, speaker("chatml").size, [1]


@cache
def pocket() -> tuple[Any, int, list[int]]:
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"), trust_remote_code=False)
    known = Vocabulary(tokenizer, 10**6)
    return known.raw, known.size, sorted(known.eos_ids)


@cache
def metaspace() -> tuple[Any, int, list[int]]:
    """As sentencepiece writes: a space is `▁`, and letters it does not know are bytes."""
    special = ["<unk>", "<s>", "</s>"]
    words = [*special, *(f"<0x{i:02X}>" for i in range(256)), "▁", *"abcdegmn[]{}:", "▁a", "na"]
    raw = Tokenizer(
        models.BPE(
            vocab={word: i for i, word in enumerate(words)},
            merges=[("▁", "a"), ("n", "a")],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    raw.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    raw.add_special_tokens([AddedToken(text, special=True) for text in special])
    return raw, raw.get_vocab_size(), [2]


@cache
def words() -> tuple[Any, int, list[int]]:
    """Whole words, of which llguidance does not read the definition."""
    known = Vocabulary(tiny_tokenizer((*'{}":,ab', "name", "age", "é", " ")), 10**6)
    return known.raw, known.size, [1]


@cache
def lexicon(kind: Callable[[], tuple[Any, int, list[int]]]) -> Lexicon:
    return Lexicon(*kind())


BYTES = [byte_level, pocket, metaspace]
ALL = [*BYTES, words]


def spelt(kind: Callable[[], tuple[Any, int, list[int]]], text: str) -> list[int]:
    return list(kind()[0].encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("kind", BYTES)
def test_a_text_that_a_grammar_describes_may_be_written_and_ended_only_when_whole(
    kind: Any,
) -> None:
    matcher, (end,) = Matcher(Compiled(PERSON.source, lexicon(kind))), kind()[2]
    tokens = spelt(kind, WRITTEN)
    rows = matcher.allowed(tokens, range(len(tokens) + 1))
    assert rows.shape == (len(tokens) + 1, lexicon(kind).size)
    assert all(rows[i, token] for i, token in enumerate(tokens))
    assert rows[:, end].tolist() == [False] * len(tokens) + [True]
    assert rows[-1].sum() == 1


@given(data=st.data(), kind=st.sampled_from(ALL))
def test_earlier_questions_do_not_change_an_answer(data: st.DataObject, kind: Any) -> None:
    """Texts cut back, drafted anew, with tokens that may not stand, and beyond the end."""
    size, ends = kind()[1], kind()[2]
    right = [*spelt(kind, WRITTEN), *ends]
    known = lexicon(kind)
    source = PERSON.source if kind is not words else Grammar.regex('[{}":,abé]*name').source
    matcher = Matcher(Compiled(source, known))
    token = st.sampled_from(right) | st.integers(0, size - 1)
    for _ in range(data.draw(st.integers(1, 5))):
        text = right[: data.draw(st.integers(0, len(right)))]
        text += data.draw(st.lists(token, max_size=4))
        places = data.draw(st.lists(st.integers(0, len(text)), min_size=1, max_size=4))
        rows = matcher.allowed(text, places)
        for place, row in zip(places, rows, strict=True):
            assert equal(row, Matcher(Compiled(source, known)).allowed(text, [place])[0])


@pytest.mark.parametrize("kind", BYTES)
def test_after_a_forbidden_token_every_token_is_allowed(
    kind: Any,
) -> None:
    matcher = Matcher(Compiled(PERSON.source, lexicon(kind)))
    right = spelt(kind, WRITTEN)
    wrong = [*right[:3], spelt(kind, "}")[-1], *right[3:]]
    rows = matcher.allowed(wrong, [3, 4, 5])
    assert not rows[0, wrong[3]]
    assert rows[1:].all()
    assert matcher.allowed(right, [3])[0, right[3]]


@pytest.mark.parametrize("kind", BYTES)
def test_after_the_end_of_a_text_every_token_is_allowed(kind: Any) -> None:
    matcher, (end,) = Matcher(Compiled(PERSON.source, lexicon(kind))), kind()[2]
    tokens = spelt(kind, WRITTEN)
    beyond = [*tokens, end, *tokens[:2]]
    rows = matcher.allowed(beyond, range(len(tokens), len(beyond) + 1))
    assert rows[0].nonzero().flatten().tolist() == [end]
    assert rows[-1].all()
    assert matcher.allowed(tokens, [1])[0, tokens[1]]


def test_any_of_several_end_tokens_ends_a_text() -> None:
    raw, size, _ = byte_level()
    both = Lexicon(raw, size, [3, 1])
    tokens = spelt(byte_level, "ab")
    row = Matcher(Compiled(Grammar.regex("ab").source, both)).allowed(tokens, [2])[0]
    assert row.nonzero().flatten().tolist() == [1, 3]
    assert (
        not Matcher(Compiled(Grammar.regex("ab").source, both))
        .allowed(tokens, [1])[0, [1, 3]]
        .any()
    )


@pytest.mark.parametrize("width", [40, 200, 257])
def test_tokens_that_the_model_does_not_know_do_not_exist(width: int) -> None:
    raw, size, ends = byte_level()
    narrow = Lexicon(raw, width, ends)
    rows = Matcher(Compiled(Grammar.regex(".*").source, narrow)).allowed([], [0])
    assert rows.shape == (1, width)
    whole = Matcher(Compiled(Grammar.regex(".*").source, Lexicon(raw, size, ends))).allowed([], [0])
    assert equal(rows[0], whole[0, :width])


def test_padding_rows_of_a_wider_model_are_no_tokens() -> None:
    """Its further rows are padding, which `Vocabulary` does not count."""
    tokenizer = speaker("chatml").tokenizer
    narrow, wide = Vocabulary(tokenizer, 261), Vocabulary(tokenizer, 512)
    assert (narrow.size, wide.size) == (260, 260)
    raw, _, ends = byte_level()
    rows = Matcher(Compiled(Grammar.regex("(?s:.)*").source, Lexicon(raw, 320, ends))).allowed(
        [], [0]
    )
    assert not rows[0, 260:].any()


@pytest.mark.parametrize("kind", ALL)
def test_every_token_has_the_bytes_of_its_text(kind: Any) -> None:
    known, raw = lexicon(kind), kind()[0]
    specials = {i for i, t in raw.get_added_tokens_decoder().items() if t.special}
    for token in range(known.size):
        data = known.data_of(token)
        if token in specials:
            assert data.decode() == raw.id_to_token(token)
        elif kind is words:
            assert data.decode() == raw.decode([token])
        elif (text := raw.decode([raw.token_to_id("a") or 0, token])[1:]).isprintable() and (
            "\ufffd" not in text
        ):
            assert data.decode() == text


@pytest.mark.parametrize("kind", BYTES)
def test_the_bytes_of_its_tokens_are_the_bytes_of_a_text(kind: Any) -> None:
    tokens = spelt(kind, WRITTEN)
    assert b"".join(map(lexicon(kind).data_of, tokens)) == WRITTEN.encode()


def test_a_special_token_does_not_match_as_text_in_a_grammar() -> None:
    raw, size, ends = byte_level()
    row = Matcher(Compiled(Grammar.regex("(?s:.)*").source, Lexicon(raw, size, ends))).allowed(
        [], [0]
    )[0]
    assert [t for t in range(4) if row[t]] == ends
    assert row[spelt(byte_level, "<im_start> A")].all()


def test_no_text_begins_or_ends_within_a_character() -> None:
    matcher, tokens = (
        Matcher(Compiled(Grammar.regex("(?s:.)*").source, lexicon(byte_level))),
        spelt(byte_level, "aé"),
    )
    rows = matcher.allowed(tokens, [0, 1, 2, 3])
    assert rows[0, tokens[1]]
    assert not rows[0, tokens[2]]
    assert [bool(row[1]) for row in rows] == [True, True, False, True]


@pytest.mark.parametrize(
    ("kind", "grammar", "text", "sentence"),
    [
        (byte_level, Grammar.lark("start: /[pq]/ A\nA: /a/ & /b/"), "p", "after 'p'"),
        (byte_level, Grammar.lark("start: /[pq]/ a | /pr/\na: b\nb: a"), "q", "after 'q'"),
        (byte_level, Grammar.regex("[pq]é"), "qx", "does not allow the text after 'q'"),
        (words, Grammar.regex("[ab]x"), "a", CANNOT_WRITE),
        (words, Grammar.regex("[ab][xy]"), "a", CANNOT_WRITE),
    ],
)
def test_a_dead_end_says_whether_the_grammar_or_the_vocabulary_is_at_fault(
    kind: Any, grammar: Grammar, text: str, sentence: str
) -> None:
    matcher, tokens = Matcher(Compiled(grammar.source, lexicon(kind))), spelt(kind, text)
    matcher.allowed([], [0])
    for _ in range(2):  # a step that fails is taken once more
        assert sentence in refusal(matcher, tokens)


def refusal(matcher: Matcher, tokens: list[int]) -> str:
    """Why nothing may follow these tokens."""
    try:
        matcher.allowed(tokens, [len(tokens)])
    except RequestError as error:
        return str(error)
    return matcher.refusal
