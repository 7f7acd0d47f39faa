"""Grammars of answers are compiled once, and followed by many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from support.chat_families import speaker

from marith.answers import answer_grammar
from marith.answers.answer_grammar import LEAST, AnswerGrammars
from marith.decoding.matcher import Compiled, Matcher
from marith.request.forms.grammar import Grammar
from marith.request.request import Request


def compiled(answers: AnswerGrammars, pattern: str) -> Compiled:
    grammar = answers.compiled(Request("u", grammar=Grammar.regex(pattern)), opened=False)
    assert grammar is not None
    return grammar


def follows(grammar: Compiled, text: str) -> bool:
    tokens = speaker("chatml").raw.encode(text, add_special_tokens=False).ids
    rows = Matcher(grammar).allowed(tokens, range(len(tokens)))
    return all(bool(row[token]) for row, token in zip(rows, tokens, strict=True))


def test_two_threads_may_compile_at_once_and_match_independently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More grammars than are kept, so that some are compiled anew while others read."""
    monkeypatch.setattr(answer_grammar, "KEPT", 16 * LEAST)
    shared, start = AnswerGrammars(speaker("chatml")), Barrier(4)
    patterns = [f"a{{{n}}}b" for n in range(20)]

    def read(offset: int) -> list[bool]:
        start.wait()
        right = []
        for n in [*range(offset, len(patterns)), *range(offset)]:
            text = "a" * n + "b"
            right.append(follows(compiled(shared, patterns[n]), text))
            right.append(not follows(compiled(shared, patterns[n]), text[1:] or "c"))
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(all(right) for right in pool.map(read, [0, 0, 8, 16]))
