"""Reads the text of a formula as Python's syntax tree, which is never run."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from keyword import iskeyword

from marith.errors import FormulaError, shown
from marith.formula.text import advice
from marith.formula.tree.bounds import MAX_LENGTH, MAX_ROW, QUOTED, letters_of

_TOO_DEEP = (  # for Python's parser, which recurses for each operator in a row
    f"nested too deeply; a long sum is written in parentheses of at most {MAX_ROW} members each"
)
_LINE_BREAK = re.compile(r"[\r\n]")
_RUN_INTO = re.compile(r"(?<!\w)(\d(?:\w*?|\w*\.))((?:and|else|for|if|in|is|or|not)\w*)")
_LITERAL = re.compile(rf"([a-zA-Z]{{0,2}})({QUOTED.pattern})", re.DOTALL)
_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?![\\'\"abfnrtv0-7xNuU])")


def read_tree(text: str) -> tuple[str, ast.Expression]:
    """A formula's text on one line, and its syntax tree. Raises FormulaError."""
    if not isinstance(text, str):
        raise FormulaError(f"a formula is a text or a Formula, not {shown(text)}")
    if (letters := letters_of(text)) > MAX_LENGTH:
        problem = f"at most {MAX_LENGTH} characters, not {letters}"
        raise FormulaError(f"a formula has {problem}; each of its terms counts as one")
    source = _LINE_BREAK.sub(" ", text).strip()
    if not source:
        raise FormulaError("an empty text is no formula")
    source = _without_warnings(source)
    if broken := next(filter(_LINE_BREAK.search, QUOTED.findall(text)), None):
        raise FormulaError(
            f"a text inside a formula stays on one line; write \\n for a new one: {shown(broken)}"
        )
    try:
        return source, _tree(source)
    except SyntaxError as error:
        start = error.offset - 1 if error.offset else max(0, len(source) - 1)
        problem, start, end = advice.of_fault(source, error.msg, start)
        raise FormulaError(f"not a formula: {problem}", source, start, end) from None
    except (RecursionError, MemoryError):
        raise FormulaError(f"not a formula: {_TOO_DEEP}", source, 0, 1) from None
    except ValueError:
        raise FormulaError("not a formula: unreadable", source[:200]) from None


def _without_warnings(source: str) -> str:
    r"""The same text with `"\d"` as `"\\d"`, for which Python's parser gives no warning.

    Raises FormulaError for a comment, and for a number that runs into a word, as in `1if`.
    """
    bare = QUOTED.sub(lambda quoted: "'" * len(quoted[0]), source)
    if "#" in bare:
        raise FormulaError("a formula has no comments", source, bare.index("#"), len(source))
    if run := _RUN_INTO.search(bare):
        hint = "" if iskeyword(run[2]) else f"; write {run[1]}*{run[2]}"
        raise FormulaError(f"{run[0]!r} is no number{hint}", source, *run.span())
    return _LITERAL.sub(_escaped, source) if "\\" in source else source


def _escaped(literal: re.Match[str]) -> str:
    if "r" in literal[1].lower():
        return literal[0]
    return literal[1] + _ESCAPE.sub(r"\\\g<0>", literal[2])


def _tree(source: str) -> ast.Expression:
    """The syntax tree. Some Pythons miscount its depth where threads parse at once: gh-106905."""
    for _ in range(99):
        with suppress(SystemError):
            return ast.parse(source, mode="eval")
    return ast.parse(source, mode="eval")
