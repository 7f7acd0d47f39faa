"""Decides whether a text with a fault was meant as a formula or as a system prompt."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice

from marith.errors import FormulaError
from marith.formula.text.advice import METHODS
from marith.formula.text.calls import CALLS
from marith.formula.text.syntax import read_tree

_QUOTATION = re.compile(r"(?<!\w)(?:\"[^\"]*\"|'[^']*')")
_WORD = r"[^\W\d_]{2,}(?:['’]\w+)?"
_TWO_WORDS = re.compile(rf"(?<!\w){_WORD}\s+{_WORD}(?!\w)")  # no formula has a word beside a word
_PRODUCT = re.compile(r"(?<![\w.])\d[\d.]*\s*\*\s*[^\W\d]")
# With a sign of prose too, as in "3 × a day" or "kind · polite": its name has to be a term's.
_SIGNED_PRODUCT = re.compile(
    r"(?<![\w.])(?:\d[\d.]*\s*[×·]\s*([^\W\d]\w*)|([^\W\d]\w*)\s*[×·]\s*\d)"
)
_FACTOR = r"(?:\d+(?:\.\d+)?\s*\(?\s*)"  # "0.5 M" and "2M" lack an operator
_SIGN = r"[-+*/−–]"  # some look like those of formulas
_FIRST_NAME = re.compile(
    rf"[\s(+-]*(?:([^\W\d]\w*)\s*(?:{_SIGN}|[(,.])|{_FACTOR}([^\W\d]\w*)\s*(?:{_SIGN}|[)]|$))"
)
_CALL = re.compile(r"(?<![\w.])([^\W\d]\w*)\(\s*(?:[\"'\d]|(\w+)\s*[,)])")
_HYPHENATED = 5  # words at most, as in "up-to-the-minute-news"
_NAMES = 100  # that are compared, since system prompts are read at each request


def is_meant_as_formula(text: str, names: Collection[str]) -> bool:
    """Whether a text with a fault was meant as a formula of `names`, and not as a system prompt.

    It was if it contains a call of what resembles a function, or an operator beside a number, a
    call or one of `names`. Not so words with hyphens or slashes between them, as in "well-read",
    and a text that Python cannot parse in which a word follows a word.
    """
    try:
        source, tree = read_tree(text)
    except FormulaError:
        return _begins_as_formula(text, names)
    return _Intent(source.encode(), names).is_formula(tree.body)


def _begins_as_formula(text: str, names: Collection[str]) -> bool:
    """Whether a text that Python cannot parse looks like a formula."""
    bare = _QUOTATION.sub('""', text).partition("#")[0]
    if _TWO_WORDS.search(bare):
        return False
    first = _FIRST_NAME.match(bare)
    calls = ((call[1], call[2]) for call in _CALL.finditer(text))
    return (
        _PRODUCT.search(bare) is not None
        or any((product[1] or product[2]) in names for product in _SIGNED_PRODUCT.finditer(bare))
        or (first is not None and (first[1] or first[2]) in names)
        or any(_is_like_call(call) and (name is None or name in names) for call, name in calls)
    )


class _Intent:
    """Looks in one text, which Python can parse, for what only a formula has."""

    def __init__(self, source: bytes, names: Collection[str]) -> None:
        self.source = source
        self.names = names
        self.compared = [*islice(names, _NAMES)]
        self.called: dict[str, bool] = {}  # whether each name of a call resembles a function

    def is_formula(self, whole: ast.AST) -> bool:
        waiting = [whole]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.BinOp):
                operators, parts = _flat(node)
                found = self.is_arithmetic(node, operators, parts)
                waiting += parts
            else:
                found = self.is_of_formula(node)
                waiting += ast.iter_child_nodes(node)
            if found:
                return True
        return False

    def is_of_formula(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name()):
                return self.is_call(node)
            case ast.Attribute(value=of, attr=attribute):
                similar = attribute in CALLS or get_close_matches(attribute, METHODS, 1)
                return self.is_near(of) and bool(similar)
            case ast.Call(func=ast.Constant(), args=[factored]):  # 2(toxic), for 2*toxic
                return self.is_near(factored)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self.is_near(operand)
            case ast.Compare(ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE(), *_]):
                return any(map(self.is_near, (node.left, *node.comparators)))
        return False

    def is_call(self, call: ast.Call) -> bool:
        """Whether a call is one of formulas, as `clasifier("m")` is, and not `kind(er)`."""
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        similar = isinstance(call.func, ast.Name) and self.is_like_call(call.func.id)
        has_value = any(not isinstance(part, ast.Name) or self.is_near(part) for part in given)
        directly = self.source[call.func.end_col_offset or 0 :][:1] == b"("
        return (similar or has_value) if directly else (similar and has_value)

    def is_like_call(self, name: str) -> bool:
        """Whether a name is a function's, or misspells one; the first names alone are compared."""
        if name not in self.called and len(self.called) < _NAMES:
            self.called[name] = _is_like_call(name)
        return self.called.get(name, name in CALLS)

    def is_arithmetic(
        self, whole: ast.BinOp, operators: list[ast.operator], parts: list[ast.expr]
    ) -> bool:
        """Whether operators are those of a formula, and no hyphens or slashes between words."""
        words = [part for part in parts if isinstance(part, ast.Name)]
        if not words or any(map(self.is_near, words[: 2 * _HYPHENATED])):
            return bool(words)
        if not all(isinstance(each, (ast.Add, ast.Sub, ast.Mult, ast.Div)) for each in operators):
            return False  # as in "Q&A"
        text = self.source[whole.col_offset : whole.end_col_offset]
        return (
            len(words) > _HYPHENATED
            or not all(isinstance(each, (ast.Sub, ast.Div)) for each in operators)
            or any(len(word.id) == 1 for word in words)
            or len(text.split(maxsplit=1)) > 1
        )

    def is_near(self, node: ast.AST) -> bool:
        """Whether a node is one of the names, or misspells one."""
        if not isinstance(node, ast.Name):
            return False
        word = node.id
        similar = len(word) > 2 and get_close_matches(word, self.compared, 1, 0.75)
        return bool(word in self.names or similar)


def _flat(node: ast.BinOp) -> tuple[list[ast.operator], list[ast.expr]]:
    """The operators of a chain, and what they combine."""
    operators: list[ast.operator] = []
    parts: list[ast.expr] = []
    waiting: list[ast.expr] = [node]
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, op=op, right=right):
                operators.append(op)
                waiting += (left, right)
            case part:
                parts.append(part)
    return operators, parts


def _is_like_call(name: str) -> bool:
    return bool(get_close_matches(name, CALLS, 1, 0.75))
