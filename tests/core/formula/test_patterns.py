"""Regular expressions mean what they mean to Python, and end in linear time."""

from __future__ import annotations

import random
import re
import sys
import threading
import time
import warnings

import pytest

from marith import FormulaError, Prompted
from marith.formula.patterns import compiled
from marith.scoring.prompting.templates import see

LETTERS = "aab b1_ß ſKkéÉÇİıIiςσΣ漢🙂\u0301\n\n\t\u2028-,.<>³²Ⅷ\xa0\x85\ud800"
CLASSES = (
    r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", ".", "[^a]", "[a-k]", "[é-ſ]", r"[^\s,]", r"[^\W\d]",
    "(?i:[a-z])", "(?i:k)", "(?i:ſ)", "(?i:[^i])", "(?i:σ)",
)  # fmt: skip
REPEATS = ("*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??", "{1,3}?")
ALL = "".join(map(chr, range(sys.maxunicode + 1)))


class Writer:
    """Regular expressions by chance, with all that RE2 can do and some that it cannot."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def letter(self) -> str:
        return re.escape(self.chance.choice(LETTERS[:-1]))

    def one(self, *kinds: str) -> str:
        return self.chance.choice(kinds)

    def atom(self, depth: int) -> str:
        kind = self.chance.random()
        if depth and kind < 0.2:
            name = f"?P<n{self.chance.randrange(10**9)}>"
            return f"({self.one('', '?:', '?i:', '?s:', '?m:', name)}{self.either(depth - 1)})"
        if kind < 0.5:
            return self.one(*CLASSES)
        if kind < 0.6:
            return self.one("^", r"\A", "(?m:^)", "(?m:$)", "$", r"\Z", r"\b", r"\B")
        return self.letter() + self.letter() * (kind > 0.8)

    def row(self, depth: int) -> str:
        row = ""
        for _ in range(self.chance.choice((0, 1, 1, 2, 3))):
            row += self.atom(depth) + (self.one(*REPEATS) if self.chance.random() < 0.35 else "")
        return row

    def either(self, depth: int) -> str:
        return "|".join(self.row(depth) for _ in range(self.chance.choice((1, 1, 2, 3))))

    def whole(self) -> str:
        ways = []
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            behind = (f"(?<={self.letter()}{self.one(*CLASSES)})", f"(?<!{self.letter()})")
            ahead = (f"(?={self.row(1)})", f"(?!{self.one(*CLASSES)})", "$", r"\Z")
            before, after = (self.one(*each, r"\b", "", "") for each in (behind, ahead))
            ways.append(before + self.row(2) + after)
        return self.one("", "", "(?i)", "(?s)", "(?m)", "(?a)", "(?x)") + "|".join(ways)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_not_refused_means_what_it_means_to_python(seed: int) -> None:
    writer, compared = Writer(seed), 0
    while compared < 100:
        pattern = writer.whole()
        try:
            with warnings.catch_warnings(action="ignore"):
                theirs, ours = re.compile(pattern), compiled(pattern)
        except (re.error, FormulaError):
            continue
        compared += 1
        for _ in range(6):
            text = "".join(writer.one(*LETTERS) for _ in range(writer.chance.randrange(12)))
            assert ours.removed_from(text) == theirs.sub("", text), (pattern, text)
            assert ours.found_in(text) == (theirs.sub("", text) != text), (pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", "(?a)\\w", "(?i)k", "(?i)s", "(?i)i", "(?i)[^σ]",
     "(?i)[a-z]", ".", "(?s).", "[^é]", r"[^\w\s]"],
)  # fmt: skip
def test_a_class_holds_the_same_characters_of_all_that_there_are(pattern: str) -> None:
    assert compiled(pattern).removed_from(ALL) == re.sub(pattern, "", ALL)


@pytest.mark.parametrize(
    ("pattern", "text", "left"),
    [
        (r"(?i)\bété\b", "L'ÉTÉ passé, étés", "L' passé, étés"),
        (r"Größe:\s*\w+\b", "Größe:\u2003groß!", "!"),
        (r"(?i)\bσας\b", "ΣΑΣ σας", " "),
        (r"(?<=Quelle: ).*?(?=\n\n)", "Quelle: 漢字 🙂\n\nFrage", "Quelle: \n\nFrage"),
        ("(?s)<c>.*?</c>", "a <c>\ud800 漢\n</c> b", "a  b"),
        (r"note\Z|\A\w+$", "é\n", "\n"),
    ],
)
def test_text_that_is_not_ascii_is_hidden(pattern: str, text: str, left: str) -> None:
    (seen,) = see(Prompted(hide=pattern), [{"role": "user", "content": text}])
    assert seen["content"] == left == re.sub(pattern, "", text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "refers back to a group"),
        ("(a)?(?(1)b|c)", "depends on a group"),
        ("(?>a+)b", "has an atomic group"),
        ("a++b", "has a possessive repeat"),
        ("a(?=b).", "looks ahead or behind elsewhere than at its ends"),
        ("(?!ab)c", "looks ahead or behind for the lack of a text"),
        (r"a\b.", r"has \\b, \\B or \$ elsewhere"),
        (r"\b.a", r"or \\b beside what may be no letter"),
        (r"\Ba", r"has \\b, \\B"),
        ("(?s)a*?b*?", "prefers an empty match to a longer one"),
        ("a{1001}", "repeats something more than 1000 times"),
        ("(a{900}){900}", "too large"),
        ("a\ud800", "names the half of a character"),
        ("(", "is not a regular expression"),
    ],
)
def test_what_cannot_be_searched_in_linear_time_is_refused_when_the_term_is_made(
    pattern: str, why: str
) -> None:
    with pytest.raises(FormulaError, match=f"^hide .*{why}"):
        Prompted(hide=pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 100_000 + "!"),
        ("(a|a)*b", "a" * 100_000),
        ("(?s)<c>.*?</c>", "<c>" * 33_000),
        (r"(?<=x).*(?=y)", "x" * 100_000),
        (r"(\w+\s?)+:", "größer " * 15_000),
    ],
)
def test_a_search_ends_in_linear_time_and_other_threads_go_on(pattern: str, text: str) -> None:
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.001):
            ticks.append(time.perf_counter())

    search = compiled(pattern)
    thread = threading.Thread(target=tick)
    thread.start()
    started = time.process_time()
    search.removed_from(text)
    took = time.process_time() - started
    over.set()
    thread.join()
    assert took < 0.05
    assert max((b - a for a, b in zip(ticks, ticks[1:], strict=False)), default=0) < 0.05
