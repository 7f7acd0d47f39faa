"""Banned words are found as soon as they are complete, and other text is not held back long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.reference import first_banned

from marith.answers.detectors import BanDetector
from marith.errors import RequestError
from marith.request.ban import Ban

LETTERS = "abAB _.1"
texts = st.text(LETTERS, max_size=12)
bans = st.builds(
    Ban,
    st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=4),
    st.booleans(),
    st.booleans(),
)


def found(ban: Ban, text: str) -> tuple[int, int] | None:
    """How many letters had come when a word was complete, the end as one more; where it began."""
    detector = BanDetector(ban)
    for place, letter in enumerate(text):
        if (at := detector.feed(letter, place)) is not None:
            return place + 1, at
    at = detector.end()
    return None if at is None else (len(text) + 1, at)


def wanted(ban: Ban, text: str) -> tuple[int, int] | None:
    """The same by looking at every beginning of the text as a whole."""
    for end in range(len(text) + 1):
        if (at := first_banned(ban, text[:end], ended=False)) is not None:
            return end, at
    at = first_banned(ban, text, ended=True)
    return None if at is None else (len(text) + 1, at)


@given(bans, texts)
@example(Ban(["foo", "bar foo"]), "a bar foo.")
@example(Ban(["ab", "ab."]), "ab.")
@example(Ban(["a b"]), "a a b")
def test_a_word_is_found_as_soon_as_it_is_complete(ban: Ban, text: str) -> None:
    assert found(ban, text) == wanted(ban, text)


CASES = [
    (Ban(["cat"]), "a Cat", 2),
    (Ban(["cat"]), "scatter cats cat's", 13),
    (Ban(["Cat"], case_sensitive=True), "a cat, a CAT, a Cat", 16),
    (Ban(["C++"]), "in C++20", 3),
    (Ban(["#tag"]), "a#tags", None),
    (Ban(["\n\n"]), "one\n\ntwo", 3),
    (Ban(["straße"]), "STRASSE", 0),
    (Ban(["STRASSE"]), "die Straße!", 4),
    (Ban(["straße"], case_sensitive=True), "strasse STRASSE Straße", None),
    (Ban(["cafe"]), "cafe\u0301", None),  # an accent of its own goes on with the word
    (Ban(["क"]), "कि", None),  # so does a vowel's sign
    (Ban(["क"]), "ख क", 2),
    (Ban(["政治"]), "谈政治吧", None),  # no space between words: ask for parts of words
    (Ban(["政治"], whole_words=False), "谈政治吧", 1),
    (Ban(["🌍"]), "a🌍b", 1),
]


@pytest.mark.parametrize(
    ("ban", "text", "at"), CASES, ids=[f"{b.words} {t!r}" for b, t, _ in CASES]
)
def test_what_counts_as_a_banned_word(ban: Ban, text: str, at: int | None) -> None:
    after = found(ban, text)
    assert (None if after is None else after[1]) == at


def test_one_word_stands_for_a_list_of_one_word() -> None:
    assert Ban("foo") == Ban(["foo"]) == Ban(("foo",))  # type: ignore[arg-type]  # taken as well
    assert hash(Ban("foo")) == hash(Ban(["foo"]))  # type: ignore[arg-type]
    assert "tree" not in repr(Ban(["foo"]))


BAD: list[tuple[dict[str, Any], str]] = [
    *(({"words": v}, "''") for v in ("", [""], ("a", ""))),
    ({"words": [5]}, "5"),
    ({"words": ["a", None]}, "None"),
    ({"words": 5}, "5"),
    ({"words": None}, "None"),
    ({"words": {"a"}}, "'a'"),
    ({"words": ["a"], "whole_words": 1}, "whole_words must be True or False, not 1"),
    ({"words": ["a"], "case_sensitive": "no"}, "case_sensitive must be True or False, not 'no'"),
]


@pytest.mark.parametrize(("given_", "says"), BAD, ids=[str(g) for g, _ in BAD])
def test_a_bad_value_is_refused_with_the_value(given_: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        Ban(**given_)


def test_too_many_characters_are_refused() -> None:
    with pytest.raises(RequestError, match=r"600,000 characters; at most 500,000"):
        Ban([f"{i:06}" for i in range(100_000)])
