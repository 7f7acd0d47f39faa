"""The page's pure functions, as the browser runs them, against values written by hand."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest

CALLS = """async ([file, name, ...given]) => (await import(`/page/${file}`))[name](...given)"""
VECTORS: list[tuple[str, list[Any], Any]] = [
    ("decimal", [1.005, 1], "1.0"),
    ("decimal", [-1.25, 2], "−1.25"),
    ("decimal", [None], "–"),
    ("signed", [0.5], "+0.50"),
    ("signed", [0.001], "0.00"),
    ("chance", [math.log(0.5)], "50 %"),
    ("chance", [-30], "< 0.01 %"),
    ("chance", [None], "0 %"),
    ("ranked", [None], "> 1,000"),
    ("pushOf", [{"logprob": -1, "bare_logprob": -3.5}], 2.5),
    ("pushOf", [{"logprob": -1, "bare_logprob": None}], None),
    ("pushStrength", [40], 1),
    ("pushStrength", [1], 0.52),
    ("surpriseStrength", [0], 0),
    ("surpriseStrength", [None], 1),
    ("firstDifference", [[1, 2, 3], [1, 2, 4]], 2),
    ("firstDifference", [[1, 2], [1, 2, 4]], None),
    ("firstUnequal", [[1, 2], [1, 2, 4]], 2),
    ("nearest", [[0, 0.1, 0.2], 0.16], 2),
    ("replaced", ["\U0001f600 2*a", 2, 3, "7"], "\U0001f600 7*a"),
    ("caretLines", ["a +\n\U0001f600 bad", 6, 9], ["\U0001f600 bad", "  ^^^"]),
    ("namesIn", ["cfg(M, cond, 1.5) - union(a_1, 'x y') + cond"], ["cond", "a_1"]),
    ("namesIn", ["f(mode=M, name=rude)"], ["rude"]),
    (
        "termsFor",
        ["a", [["a", {"formula": "b - M"}], ["b", "of c"], ["c", "not used"]]],
        [["a", {"formula": "b - M"}], ["b", "of c"]],
    ),
    ("spelled", [" a\n\t"], "␣a↵⇥"),
    (
        "shown",
        ["a\u001b]8;;x\u0007b\u202ec\u2066d\u200be\ttab\nline \U0001f468\u200d\U0001f469"],
        "a⟨U+001B⟩]8;;x⟨U+0007⟩b⟨U+202E⟩c⟨U+2066⟩d⟨U+200B⟩e\ttab\nline \U0001f468\u200d\U0001f469",
    ),
    ("added", [{"text": "a", "completed": None}], "a"),
    ("added", [{"text": "�", "completed": ""}], ""),
    ("added", [{"text": "�", "completed": "日"}], "日"),
]


@pytest.mark.parametrize(("name", "given", "value"), VECTORS)
def test_pure_functions_return_the_expected_values(
    page: Any, name: str, given: list[Any], value: Any
) -> None:
    assert page.evaluate(CALLS, ["values.js", name, *given]) == value


EVENTS = 'data: {"a": 1}\n\n: nothing\n\ndata: x\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_events_are_read_in_pieces_of_any_size(page: Any, size: int) -> None:
    read = """async ([text, size]) => {
      const read = (await import('/page/server.js')).eventReader();
      const found = [];
      for (let i = 0; i < text.length; i += size) found.push(...read(text.slice(i, i + size)));
      return found;
    }"""
    assert page.evaluate(read, [EVENTS, size]) == ['{"a": 1}', "x", "[DONE]"]


TEXTS = [
    "plain", "'; $(rm -rf ~) `x`", 'say "hi" \\ \\n', "two\nlines\r\n\ttab", "ünï 漢字 \U0001f600",
    "\x00\x07\x1b[31m\x7f\x85", "\u202e \u200f \u2028\u2029\ufeff \xa0\xad", "{x} %s ''' \"\"\" #",
    "", "\ud83d",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_quotes_are_read_back_as_they_were(page: Any, text: str) -> None:
    quoted = str(page.evaluate(CALLS, ["copies.js", "tomlText", text]))
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert tomllib.loads(f"a = {quoted}")["a"] == whole
    assert quoted.isprintable()
