"""Regular expressions mean what they mean to RE2, and end in linear time."""

from __future__ import annotations

import re
import threading
import time

import pytest

from marith import FormulaError, Prompted
from marith.formula.patterns import compile_pattern, pattern_matches, remove_matches


@pytest.mark.parametrize(
    ("pattern", "text", "left"),
    [
        (r"\w+", "naïve 12", "ï "),
        (r"[\p{L}\p{M}]+", "naïve 12 漢字", " 12 "),
        (r"[\p{L}\pN]+", "naïve 12 ³Ⅷ", "  "),
        ("(?i)été", "L'ÉTÉ passé, étés", "L' passé, s"),
        (r"\s", "a\xa0b\u2003c d", "a\xa0b\u2003cd"),
        ("(?s)<c>.*?</c>", "a <c>\ud800 漢\n</c> b\ud800", "a  b\ud800"),
        ("Quelle: (?P<hier>(?s:.*?))\n\n", "Quelle: 漢字\n🙂\n\nFrage", "Quelle: \n\nFrage"),
        ("(?P<one>a)b|cd|(e)f", "abcdef", "b"),
        ("(?P<first>a)-(?P<second>b(?P<within>c))", "a-bcd", "-d"),
        ("a*", "baab", "bb"),
        ("(?P<none>)a", "aa", "aa"),
    ],
)
def test_a_pattern_removes_its_matches_or_only_their_named_groups(
    pattern: str, text: str, left: str
) -> None:
    assert remove_matches(pattern, text) == left
    assert pattern_matches(pattern, text) == (left != text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a(?=b)", r"invalid perl operator: \(\?="),
        (r"(a)\1", r"invalid escape sequence: \\1"),
        ("a++b", r"bad repetition operator: \+\+"),
        ("a{1001}", "invalid repetition size"),
        (r"\pL{1000}", "pattern too large"),
        (r"(?P<a\\1>b)", r"invalid named capture group: \(\?P<a\\\\1>;"),
        (r"(\\1(", r"missing \): .*;"),
        ("+a", r"no argument for repetition operator: \+;"),
        ("a\ud800", "it contains an unpaired surrogate"),
    ],
)
def test_a_pattern_that_re2_does_not_support_is_refused(pattern: str, why: str) -> None:
    quoted = re.escape(repr(pattern))
    with pytest.raises(
        FormulaError, match=f"^hide={quoted} is not a regular expression in RE2's syntax: .*{why}"
    ):
        Prompted(hide=pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 100_000 + "!"),
        ("(a|a)*b", "a" * 100_000),
        ("(?s)<c>.*?</c>", "<c>" * 33_000),
        ("x(?P<y>.*)y", "x" * 100_000),
        (r"(\w+\s?)+:", "größer " * 15_000),
    ],
)
def test_a_search_ends_in_linear_time_and_other_threads_go_on(pattern: str, text: str) -> None:
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.001):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    compile_pattern(pattern)
    thread.start()
    started = time.thread_time()
    remove_matches(pattern, text)
    took = time.thread_time() - started
    over.set()
    thread.join()
    assert took < 0.05
    assert max((b - a for a, b in zip(ticks, ticks[1:], strict=False)), default=0) < 0.05
