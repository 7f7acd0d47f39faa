"""The covers of any bytes, for the corners of tokenizers: what holds for every text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from support.byte_models import CORNERS, END, END_OF_BYTES, HashModel, byte_level, hash_model
from support.covered_texts import new_text, sorted_tokens
from tokenizers import AddedToken

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import KEPT, CoveredText
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

PARTS = (
    "the", " the", "cat", "  ", " ", "\n", "\n\n\n", "\t", " \n", "12", "1234567", "é", "e\u0301",
    "\u0301", "東京", "🎉", "'s", "<think>", "</s>", "<s>", "<|turn|>", "<unk>", "\x00", "\x01",
    "▁", "\ufffd", "ﬁ", "a" * 9, " " * 20, "\n" * 12,
)  # fmt: skip
MARKS = ("<think>", "</think>")
pieces_of_text = st.one_of(
    st.sampled_from(PARTS).map(str.encode),
    st.text(max_size=4).map(str.encode),
    st.binary(max_size=4),
)
bytes_of_texts = st.lists(pieces_of_text, max_size=6).map(b"".join)
kinds = st.sampled_from(sorted(CORNERS))


def ask(model: HashModel, text: CoveredText, data: Sequence[int]) -> np.ndarray:
    """Return the distributions at all places of a text, or at the last ones of a long text."""
    count = min(len(data) + 1, KEPT)
    while (wanted := text.wanted(data, count)) is not None:
        text.receive(wanted, torch.from_numpy(model.after(wanted)).log())
    return np.stack([row.double().exp().numpy() for row in text.rows(count)])


def require_sound(kind: str, text: CoveredText, data: Sequence[int]) -> None:
    rows = ask(hash_model(kind), text, data)
    assert not np.isnan(rows).any()
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-5)
    assert any(cover.depth == 0 for cover in text._places[-1].covers)


@given(kinds, bytes_of_texts)
@example("composed characters", "e\u0301te\u0301 the".encode())
@example("no bytes", "a東 the é".encode())
@example("byte level", b"\xff\xfe\x80a\xe6\x9d")
def test_every_text_has_distributions_and_a_cover_that_ends_at_its_last_byte(
    kind: str, data: bytes
) -> None:
    require_sound(kind, new_text(kind), data)
    tokens, _ = sorted_tokens(kind)
    if not tokens.lacking:
        rows = ask(hash_model(kind), new_text(kind), data)
        assert (rows > 0).all()


@given(kinds, bytes_of_texts, bytes_of_texts)
def test_a_text_may_go_on_after_an_end(kind: str, before: bytes, after: bytes) -> None:
    require_sound(kind, new_text(kind), [*before, END_OF_BYTES, *after, END_OF_BYTES])


@given(kinds, bytes_of_texts, st.lists(st.tuples(st.integers(0, 40), bytes_of_texts), max_size=4))
def test_a_text_that_is_changed_has_the_distributions_of_a_new_text(
    kind: str, data: bytes, edits: list[tuple[int, bytes]]
) -> None:
    model, text = hash_model(kind), new_text(kind)
    ask(model, text, data)
    for kept, more in edits:
        data = data[: max(0, len(data) - kept)] + more
        for end in {len(data) // 2, len(data)}:
            grown = ask(model, text, data[:end])
            np.testing.assert_array_equal(grown, ask(model, new_text(kind), data[:end]))


def test_a_text_that_is_rolled_back_far_is_read_again() -> None:
    model, text = hash_model("byte level"), new_text("byte level")
    long = b"the cat 12 " * (2 * KEPT // 11)
    first = ask(model, text, long)
    for dropped in (1, KEPT - 1, KEPT, KEPT + 1, len(long)):
        begun = long[: len(long) - dropped]
        fresh = ask(model, new_text("byte level"), begun)
        # One place is asked first: the text is rolled back without the places before it.
        while (wanted := text.wanted(begun)) is not None:
            text.receive(wanted, torch.from_numpy(model.after(wanted)).log())
        np.testing.assert_array_equal(text.rows(1)[0].double().exp().numpy(), fresh[-1])
        np.testing.assert_array_equal(ask(model, text, begun), fresh)
        np.testing.assert_array_equal(ask(model, text, long), first)


def test_the_weights_of_covers_are_shares_however_long_the_text_is() -> None:
    model, text = hash_model("byte level"), new_text("byte level")
    data = b"the cat 12 " * 100
    ask(model, text, data)
    assert text.likelihoods(1)[0] < np.log(1e-300)
    covers = text._places[-1].covers
    shares = [cover.mass if cover.depth else cover.weight for cover in covers]
    assert len(shares) > 1
    assert sum(shares) == pytest.approx(1)


@given(kinds, st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
@example("byte level", "a\n\n\n" + "\n" * 30 + "the")
@example("three digits", "1" * 50 + "a")
@example("pieces", " " * 40 + "the")
def test_the_tokens_that_the_tokenizer_writes_are_a_cover(kind: str, text: str) -> None:
    model = hash_model(kind)
    written, data = model.encode(text), text.encode()
    if model.bytes_of(written) != data:
        return  # The tokenizer changes this text, or lacks a character.
    covers = new_text(kind)
    ask(model, covers, data)
    whole = [cover.tokens for cover in covers._places[-1].covers if cover.depth == 0]
    assert tuple(written) in whole
    # The window in which tokens are compared hides no others.
    for tokens in whole:
        assert model.is_canonical(tokens)


@given(st.sampled_from(["byte level", "pieces"]), st.lists(st.sampled_from(PARTS), max_size=4))
@example("byte level", ["the", "  ", "cat"])
def test_text_after_an_end_or_bytes_that_are_not_utf_8_is_compared_by_itself(
    kind: str, parts: list[str]
) -> None:
    model, text = hash_model(kind), "the" + "".join(parts)
    if model.bytes_of(model.encode(text)) != text.encode():
        return  # The tokenizer changes this text.
    for byte, token in ((0xFF, model.data.index(b"\xff")), (END_OF_BYTES, END)):
        covers = new_text(kind)
        ask(model, covers, [byte, *text.encode()])
        whole = [cover.tokens for cover in covers._places[-1].covers if cover.depth == 0]
        assert (token, *model.encode(text)) in whole
        assert all(model.is_canonical(tokens[1:]) for tokens in whole)


def test_one_cover_of_bytes_that_are_not_utf_8_is_kept() -> None:
    model, covers = (
        hash_model("byte level, no pretokenizer"),
        new_text("byte level, no pretokenizer"),
    )
    one, *two = (model.data.index(data) for data in (b"\xe6\x9d", b"\xe6", b"\x9d"))
    last = model.data.index(b"a")
    ask(model, covers, b"\xe6\x9d")
    assert {cover.tokens for cover in covers._places[-1].covers if not cover.depth} == {
        (one,),
        (*two,),
    }
    ask(model, covers, b"\xe6\x9da")
    chances = {
        tokens: np.prod([model.after(tokens[:i])[token] for i, token in enumerate(tokens)])
        for tokens in ((one, last), (*two, last))
    }
    likeliest = max(chances, key=lambda tokens: float(chances[tokens]))
    assert [cover.tokens for cover in covers._places[-1].covers if not cover.depth] == [likeliest]


class StrictModel(HashModel):
    """A model in which most tokens have no probability, or one that float32 cannot hold."""

    def _pass(self, tokens: tuple[int, ...]) -> np.ndarray:
        row = super()._pass(tokens)
        order = np.argsort(row)
        row[order[: self.size // 2]] = 0.0
        row[order[self.size // 2 : -4]] *= 1e-200
        return np.asarray(row / row.sum())


@given(st.sampled_from(["byte level", "pieces", "no bytes"]), bytes_of_texts)
@example("byte level", b"the cat that the cat")
def test_a_text_that_a_model_considers_impossible_goes_on(kind: str, data: bytes) -> None:
    model = StrictModel(kind)
    for text in (new_text(kind), CoveredText(sorted_tokens(kind)[0], None)):
        some = [*data[:12], END_OF_BYTES, *data[12:20]]
        rows = ask(model, text, some)
        assert not np.isnan(rows).any()
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("nats", [120.0, float("inf")])
def test_special_tokens_that_are_certain_leave_a_distribution_of_bytes(nats: float) -> None:
    """Float32 holds no probability of less than exp(-104)."""
    model, data = hash_model("byte level"), b"the cat 12"
    others = torch.tensor([bool(text) or token == END for token, text in enumerate(model.data)])
    [special, *_] = (~others).nonzero()[:, 0].tolist()

    def certain(tokens: Sequence[int]) -> torch.Tensor:
        row = torch.from_numpy(model.after(tokens)).log() - nats
        row[special] = 0.0
        return row.float()

    text = new_text("byte level")
    while (wanted := text.wanted(data, len(data) + 1)) is not None:
        text.receive(wanted, certain(wanted))
    rows = text.rows(len(data) + 1)
    for row in rows:
        assert not row.isnan().any()
        assert float(row.double().exp().sum()) == pytest.approx(1, abs=1e-5)
    [plain] = ask(model, new_text("byte level"), b"")
    expected = plain if nats == 120.0 else np.full(len(plain), 1 / len(plain))
    np.testing.assert_allclose(rows[0].double().exp().numpy(), expected, atol=1e-5, rtol=1e-3)


def test_a_long_text_keeps_its_bytes_their_sums_and_the_last_places() -> None:
    model, text, data = hash_model("byte level"), new_text("byte level"), b"the cat 12 " * 728
    asked = []
    for count in (4000, 8000):
        begun = data[:count]
        while (wanted := text.wanted(begun)) is not None:
            asked.append(wanted[-1:])
            text.receive(wanted, torch.from_numpy(model.after(wanted[-1:])).log())
        assert len(text._data) == len(text._sums) - 1 == count
        assert len(text._places) == KEPT
        # Only the covers of the newest place have probabilities.
        *older, _ = text._places
        covers = [cover for place in older for cover in place.covers]
        assert all(cover.masses is cover.ends is None for cover in covers)
    # A byte needs about one row of the model.
    assert len(asked) < 1.5 * len(text._data)


@pytest.mark.parametrize("kind", CORNERS)
def test_names_of_special_tokens_are_text(kind: str) -> None:
    tokens, _ = sorted_tokens(kind)
    model = hash_model(kind)
    for name in ("</s>", "<|turn|>"):
        covers = new_text(kind)
        ask(model, covers, name.encode())
        special = {model.tokenizer.convert_tokens_to_ids(name)} & {*range(model.size)}
        for cover in covers._places[-1].covers:
            assert not special.intersection(cover.tokens)
            if not tokens.lacking:
                assert tokens.bytes_of(cover.tokens) == name.encode()[: -cover.depth or None]


def test_bytes_that_a_vocabulary_lacks_are_not_read() -> None:
    tokens, _ = sorted_tokens("no bytes")
    assert {"é".encode()[0], ord("Q")} <= tokens.lacking
    assert not {*b"the cat12"} & tokens.lacking
    model, covers = hash_model("no bytes"), new_text("no bytes")
    rows = ask(model, covers, "theQ é cat".encode())
    same = ask(model, new_text("no bytes"), b"the  cat")
    # The text is that of the bytes that the vocabulary has, but no token spans a gap.
    assert rows.shape[0] == same.shape[0] + 3
    for cover in covers._places[-1].covers:
        assert tokens.bytes_of(cover.tokens) == b"the  cat"[: -cover.depth or None]
        ends = np.cumsum([len(tokens.bytes_of_token[token]) for token in cover.tokens])
        assert {3, 4} <= {*ends.tolist()}
    assert covers.likelihoods(1)[0] == pytest.approx(
        sum(np.log(rows[i][byte]) for i, byte in enumerate("theQ é cat".encode())
            if byte not in tokens.lacking), abs=1e-4,
    )  # fmt: skip


def test_a_character_that_is_a_token_is_read_byte_by_byte() -> None:
    """The vocabulary has no tokens for single bytes of it."""
    tokens, _ = sorted_tokens("whole characters")
    model, begun = hash_model("whole characters"), "the 東 caf".encode()
    assert not {*"é東京".encode()} & tokens.lacking
    assert {*"Qö".encode()} & tokens.lacking == {ord("Q"), 0xB6}
    for character in ("é", "東"):
        data = begun + character.encode()
        rows = ask(model, new_text("whole characters"), data)
        for end in range(len(begun), len(data)):
            expected = model.law(data[:end], start=())
            np.testing.assert_allclose(rows[end], expected, atol=1e-5, rtol=1e-3)
            assert rows[end][data[end]] > 0
        # Inside the character, only what goes on with a character of the vocabulary is possible.
        first = data[len(begun) : len(begun) + 1]
        ways = {text[1] for text in model.data if text[:1] == first}
        assert {*np.flatnonzero(rows[len(begun) + 1])} == ways


def test_text_after_a_mark_of_reasoning_is_encoded_by_itself() -> None:
    """The mark is a special token here, whose name is text; its name in ordinary tokens is too."""
    tokenizer = byte_level(added=[AddedToken(mark, special=True) for mark in MARKS])
    tokenizer.chat_template = "{{ messages[-1].content }}{#- <think></think> -#}"
    vocabulary = Vocabulary(tokenizer, 1000)
    tokens = SortedTokens(vocabulary)
    opened, closed = (tokenizer.convert_tokens_to_ids(mark) for mark in MARKS)
    assert tokens.marks == {opened, closed}
    model = hash_model("byte level")
    covers = CoveredText(tokens, CanonicalTokens(vocabulary, tokens))
    text = "12 <think>the  cat</think>\n\nthat"
    while (wanted := covers.wanted(text.encode())) is not None:
        row = np.full(len(tokens.bytes_of_token), 1e-4)
        row[: model.size] = model.after([token for token in wanted if token < model.size])
        covers.receive(wanted, torch.from_numpy(row / row.sum()).log())
    parts = [vocabulary.encode(part) for part in ("12 ", "the  cat", "\n\nthat")]
    whole = {cover.tokens for cover in covers._places[-1].covers if cover.depth == 0}
    assert (*parts[0], opened, *parts[1], closed, *parts[2]) in whole
    assert tuple(vocabulary.encode(text)) in whole
    for cover in whole:
        apart: list[list[int]] = [[]]
        for token in cover:
            apart[-1:] = [apart[-1], []] if token in tokens.marks else [[*apart[-1], token]]
        assert all(model.is_canonical(tuple(part)) for part in apart)
