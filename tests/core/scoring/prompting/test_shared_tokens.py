"""Which vocabularies nearly agree, and what a term of such a model lacks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.near_models import tokenizer_of

from marith.scoring.prompting.shared_tokens import SharedTokens
from marith.scoring.prompting.tokenizer import Vocabulary

# Two special tokens of `WORDS` are fewer than 1 %, and three are not.
WORDS = tuple(f"w{i}" for i in range(296))
THINK = ("<think>", "</think>")
FIRST = 2 + len(WORDS)


def vocabulary(
    special: Sequence[str] = THINK,
    words: Sequence[str] = WORDS,
    ends: Sequence[int] = (),
    width: int = 1000,
) -> Vocabulary:
    return Vocabulary(tokenizer_of(special, words), width, ends)


def compared(own: Vocabulary, base: Vocabulary | None = None) -> SharedTokens:
    shared = SharedTokens.of(base or vocabulary(), own)
    assert shared is not None
    return shared


def test_equal_vocabularies_need_no_rule() -> None:
    assert SharedTokens.of(vocabulary(), vocabulary(ends=[FIRST])) is None


def test_two_renamed_special_tokens_are_lacked() -> None:
    shared = compared(vocabulary(("<box>", "</box>")))
    assert not shared.too_few
    assert shared.different == shared.lacking == (FIRST, FIRST + 1)
    said = shared.first_difference("q", "M")
    assert (
        said == f"2 of 300 tokens differ, such as token {FIRST}: '<box>' in 'q', '<think>' in 'M'"
    )


def test_a_token_added_to_either_model() -> None:
    more, fewer = vocabulary((*THINK, "<pad>")), vocabulary(width=FIRST + 2)
    added = compared(more, fewer)
    assert (added.different, added.lacking, added.too_few) == ((FIRST + 2,), (), False)
    missing = compared(fewer, more)
    assert (missing.different, missing.lacking) == ((FIRST + 2,), (FIRST + 2,))
    said = f"token {FIRST + 2}: no token in 'q', '<pad>' in 'M'"
    assert said in missing.first_difference("q", "M")
    # A token that the model has no row for is read as its unknown token, or else as its first.
    assert missing.read([5, FIRST, FIRST + 2]) == [5, FIRST, 0]
    assert compared(vocabulary(("<box>", "</box>"))).read([5, FIRST]) == [5, FIRST]


def test_an_unknown_token_stands_for_a_token_without_a_row() -> None:
    tokenizer = tokenizer_of(THINK, WORDS)
    tokenizer.unk_token = "w7"
    own = Vocabulary(tokenizer, FIRST + 2)
    assert compared(own, vocabulary((*THINK, "<pad>"))).read([FIRST + 2]) == [9]


@pytest.mark.parametrize("few", [True, False])
def test_three_of_three_hundred_tokens_are_too_many(few: bool) -> None:
    special = ("<think>", "</think>", "<c>")
    renamed = ("<x>", "<y>", "<c>" if few else "<z>")
    base = vocabulary(special, WORDS[1:])
    assert compared(vocabulary(renamed, WORDS[1:]), base).too_few is not few


def test_an_ordinary_piece_must_not_differ() -> None:
    other = compared(vocabulary(words=("other", *WORDS[1:])))
    assert other.too_few
    assert other.ordinary == (2,)
    assert "token 2: 'other' in 'q', 'w0' in 'M'" in other.first_difference("q", "M")
    # A special token in the place of an ordinary piece is no better.
    shorter = compared(vocabulary((*THINK, "<x>"), WORDS[:-1]))
    assert shorter.too_few
    assert FIRST - 1 in shorter.ordinary


def test_all_ends_are_one_at_the_base_models_first() -> None:
    base = vocabulary(ends=[1, FIRST + 1])
    shared = compared(vocabulary(("<think>", "<eot>"), ends=[FIRST, FIRST + 1]), base)
    assert shared.ends == (1, FIRST + 1)
    # The base model's first end has its own text, so it ends the model's texts, too.
    assert shared.own_ends == (1, FIRST, FIRST + 1)
    assert shared.lacking == (FIRST, FIRST + 1)


def test_a_base_model_without_ends_changes_no_end() -> None:
    base = vocabulary()
    base.eos_ids = frozenset()
    shared = compared(vocabulary(("<box>", "</box>")), base)
    assert (shared.ends, shared.own_ends) == ((), ())
    assert shared.lacking == (FIRST, FIRST + 1)


def test_a_model_without_ends_is_silent_on_the_end() -> None:
    own = vocabulary(("<box>", "</box>"))
    own.eos_ids = frozenset()
    base = vocabulary(ends=[FIRST])
    base.eos_ids = frozenset({FIRST})
    assert compared(own, base).lacking == (FIRST, FIRST + 1)
