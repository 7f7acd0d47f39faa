"""Parse formula text: Python's arithmetic, read as a syntax tree and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from keyword import iskeyword
from typing import Any, TypeAlias, TypeVar

from marith.errors import FormulaError, Untrusted, shown
from marith.formula.text import advice
from marith.formula.text.advice import METHODS
from marith.formula.text.calls import (
    BUILT_IN,
    CALLS,
    load_function,
    misfit,
    near,
    offered,
    opens_files,
)
from marith.formula.tree.factors import Comparison, Varying, is_number, number
from marith.formula.tree.node import MAX_DEPTH, MAX_LENGTH, MAX_NODES, Node
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.printing import QUOTED
from marith.formula.tree.terms import Prompted

T = TypeVar("T")

Value: TypeAlias = "Node | float | int | str | bool | list[Any] | dict[Any, Any] | None"

# Untrusted text may give `prompted` only these arguments.
PLAIN = ("system", "mode")
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_RELATIONS: Mapping[type[ast.cmpop], str] = {
    ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=",
}  # fmt: skip
_LINE_BREAK = re.compile(r"[\r\n]")
# Python reads `1if` as a number and a keyword, and warns.
_RUN_INTO = re.compile(r"(?<!\w)(\d(?:\w*?|\w*\.))((?:and|else|for|if|in|is|or|not)\w*)")
# A quoted text with its prefix, such as the r of r"…".
_LITERAL = re.compile(rf"([a-zA-Z]{{0,2}})({QUOTED.pattern})", re.DOTALL)
# A backslash that does not begin one of Python's escapes.
_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?![\\'\"abfnrtv0-7xNuU])")
# A term in a text whose quoted texts were replaced by empty ones. A classifier with a call in its
# guide does not match, and is not counted as one character.
_TERM = re.compile(r"\b(?:prompted|classifier|ngram|uniform)\([^()]*\)")


def parse_text(text: str, allowed: Collection[str] | None = None) -> Formula:
    """Return the formula of a text. Names that are not calls stay names.

    If `allowed` is not None, the text is untrusted. It must not name a model, a file or a regular
    expression; `prompted` takes only `system` and `mode`; and functions that are not marith's own
    may be called only if `allowed` lists them. Raises FormulaError for invalid text, which is
    quoted with a caret under the fault.
    """
    source, tree = read_tree(text)
    if isinstance(tree.body, (ast.List, ast.Tuple)):
        problem = f"a formula needs a term; this is a list{advice.of_list(source)}"
        raise FormulaError(problem, source, 0, len(source))
    value = _Reader(source, allowed).read(tree.body, 0)
    if not isinstance(value, Formula):
        problem = f"a formula needs a term; this is {advice.of_value(value)}"
        raise FormulaError(problem, source, 0, len(source))
    return value


def read_tree(text: str) -> tuple[str, ast.Expression]:
    """Return a formula's text on one line, and its syntax tree. Raises FormulaError."""
    if not isinstance(text, str):
        raise FormulaError(f"a formula is a text or a Formula, not {shown(text)}")
    if (letters := letters_of(text)) > MAX_LENGTH:
        problem = f"at most {MAX_LENGTH} characters, not {letters}"
        raise FormulaError(f"a formula has {problem}; each of its terms counts as one character")
    source = _LINE_BREAK.sub(" ", text).strip()
    if not source:
        raise FormulaError("an empty text is not a formula")
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
        # Python's parser raises either of them for text that is nested too deeply.
        raise FormulaError(f"not a formula: {advice.of_depth(source)}", source, 0, 1) from None
    except ValueError:
        raise FormulaError("not a formula: unreadable", source[:200]) from None


def letters_of(text: str) -> int:
    """Return the length of a formula's text in characters, with each term counted as one.

    A term may hold a text of any length: the length of `0.5*prompted("Be kind.")` is 5.
    """
    return len(_TERM.sub("M", QUOTED.sub('""', text)))


class _Reader:
    """A reader of one syntax tree. It keeps the text, so that errors can point into it."""

    def __init__(self, source: str, allowed: Collection[str] | None) -> None:
        self.source = source
        self.names: dict[str, Name] = {}
        self.trusted = allowed is None
        self.callable = {*BUILT_IN, *(allowed or ())}

    def read(self, node: ast.expr, depth: int) -> Value:
        # For options and for members of sums, `depth` is greater than their depth in the formula.
        if depth > MAX_DEPTH + 2:
            raise self.error(f"nested more than {MAX_DEPTH} deep", node)
        match node:
            case ast.Name(id=name):
                if name not in self.names:
                    self.names[name] = Name(name)
                return self.names[name]
            case ast.Constant(value=value) if isinstance(value, (int, float, str, type(None))):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=(int() | float()) as value)):
                return -value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                negated: Value = self.built(node, lambda: -self.arithmetic(operand, depth))
                return negated
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                unchanged: Value = self.arithmetic(operand, depth)
                return unchanged
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return self.binary(node, depth)
            case ast.Call(func=ast.Name(id=name)) if self.is_call(name, node):
                if not self.trusted:
                    self.check_trust(name, node)
                return self.call(CALLS[name], node, depth)
            case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in METHODS:
                cut = getattr(self.formula(of, depth), name)
                return self.call(cut, node, depth)
            case ast.Call(func=ast.Name(id=name)):
                meant = self.meant(name, node, depth)
                raise self.error(f"{name!r} has no meaning in a formula{meant}", node)
            case ast.Call(func=ast.Attribute(attr=name)):
                raise self.error(advice.of_method(name), node)
            case ast.Compare(left=left, ops=[relation], comparators=[right]):
                return self.comparison(left, relation, right, node, depth)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.read(item, depth + 1) for item in items]
            case ast.Dict():
                return self.table(node, depth)
            case ast.BinOp():
                raise self.unknown_operator(node)
        raise self.error(advice.of_expression(node), node)

    def comparison(
        self, left: ast.expr, relation: ast.cmpop, right: ast.expr, node: ast.expr, depth: int
    ) -> Comparison:
        sides = [self.arithmetic(left, depth), self.arithmetic(right, depth)]
        written = _RELATIONS.get(type(relation))
        if written is None:
            raise self.error(advice.of_relation(relation), node)
        if problem := advice.of_sides(*sides):
            raise self.error(problem, node)
        return Comparison(sides[0], written, sides[1])

    def unknown_operator(self, node: ast.BinOp) -> FormulaError:
        """Return the error for an operator that formulas do not have, with a caret under it."""
        operator, hint = advice.OTHER_OPERATORS[type(node.op)]
        left_end = _characters(self.source, node.left.end_col_offset or 0)
        start = self.source.index(operator, left_end)
        problem = f"{operator!r} is not an operator of formulas, which are +, -, * and /{hint}"
        return FormulaError(problem, self.source, start, start + len(operator))

    def table(self, node: ast.Dict, depth: int) -> dict[str, Value]:
        """Read the options of a template, or the vectors of a term, with their values."""
        values: dict[str, Value] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise self.error("the names in {…} must be texts in quotes", key or node)
            if key.value in values:
                raise self.error(f"{key.value!r} is named twice in {{…}}", key)
            values[key.value] = self.read(value, depth + 1)
        return values

    def binary(self, node: ast.BinOp, depth: int) -> Value:
        """Read a chain of operators from left to right. Its length does not count as depth."""
        # In Python's syntax tree, a sum of n members is nested n deep.
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and type(left.op) in _OPERATORS:
            chain.append(left)
            left = left.left
        if len(chain) >= MAX_NODES:
            raise self.error(
                f"a chain of {len(chain)} operators; {MAX_NODES} parts are allowed", node
            )
        value: Value = self.arithmetic(left, depth)
        for operation in reversed(chain):
            value = self.apply(operation, value, self.arithmetic(operation.right, depth))
        return value

    def apply(self, operation: ast.BinOp, left: Any, right: Any) -> Any:
        combine = _OPERATORS[type(operation.op)]
        if is_number(left) and is_number(right):
            return self.built(operation, lambda: number(combine(float(left), float(right))))
        return self.built(operation, lambda: combine(left, right))

    def arithmetic(self, node: ast.expr, depth: int) -> Any:
        if isinstance(node, ast.Tuple):
            hint = advice.of_list(self.source)
            raise self.error(f"a list cannot be added or multiplied{hint}", node)
        value = self.read(node, depth + 1)
        if isinstance(value, (Formula, Varying)):
            return value
        if not is_number(value):
            raise self.error(advice.of_operand(value), node)
        return self.built(node, lambda: number(value))

    def formula(self, node: ast.expr, depth: int) -> Formula:
        value = self.read(node, depth + 1)
        if not isinstance(value, Formula):
            raise self.error("a term is needed here", node)
        return value

    def call(self, build: Callable[..., Node], node: ast.Call, depth: int) -> Node:
        positional = [self.read(argument, depth + 1) for argument in node.args]
        named = {k.arg: self.read(k.value, depth + 1) for k in node.keywords if k.arg}
        if len(named) < len(node.keywords):
            raise self.error("** has no meaning in a formula", node)

        def called() -> Node:
            try:
                return build(*positional, **named)
            except TypeError as error:
                raise misfit(_written(node.func), build, positional, named, error) from None

        return self.built(node, called)

    def meant(self, name: str, call: ast.Call, depth: int) -> str:
        """Return advice about a call without a meaning: what to write, or which functions exist."""
        if name in METHODS:
            return f"; a formula has it: M.{name}(…)"
        arguments: list[Value] = []
        with suppress(FormulaError):
            arguments = [self.read(argument, depth + 1) for argument in call.args]
        hint = advice.of_function(name, arguments)
        return hint or near(name, offered() if self.trusted else ()) or advice.FUNCTIONS

    def is_call(self, name: str, node: ast.Call) -> bool:
        """Return whether formulas may call a name. For untrusted text no package is imported."""
        return name in CALLS or (self.trusted and self.built(node, lambda: load_function(name)))

    def check_trust(self, name: str, node: ast.Call) -> None:
        """Raise Untrusted for a call, or an argument, that untrusted text must not have."""
        if name not in self.callable:
            problem = f"untrusted formulas may not use {name}: the application does not allow it"
            raise self.error(problem, node, Untrusted)
        if opens_files(name):
            raise self.error(f"untrusted formulas may not use {name}", node, Untrusted)
        if CALLS[name] is Prompted:
            refused = [*node.args[2:], *(k.value for k in node.keywords if k.arg not in PLAIN)]
            if refused:
                problem = f"in untrusted formulas {name} takes only {' and '.join(PLAIN)}"
                raise self.error(problem, refused[0], Untrusted)

    def built(self, node: ast.expr, build: Callable[[], T]) -> T:
        """Return the result of `build`. Its errors get a caret under the node."""
        try:
            return build()
        except FormulaError as error:
            if error.text:
                raise
            raise self.error(error.problem, node) from None
        except (TypeError, ZeroDivisionError, OverflowError) as error:
            raise self.error(str(error), node) from None

    def error(
        self, problem: str, node: ast.expr, kind: type[FormulaError] = FormulaError
    ) -> FormulaError:
        start = _characters(self.source, node.col_offset)
        return kind(problem, self.source, start, _characters(self.source, node.end_col_offset or 0))


def _written(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)


def _characters(source: str, byte_offset: int) -> int:
    """Return the number of characters before a byte offset, because `ast` counts UTF-8 bytes."""
    return len(source.encode()[:byte_offset].decode(errors="ignore"))


def _without_warnings(source: str) -> str:
    r"""Return the text with `"\d"` as `"\\d"`, because Python's parser warns about the former.

    Raises FormulaError for a comment, and for a number directly before a word, as in `1if`.
    """
    bare = QUOTED.sub(lambda quoted: "'" * len(quoted[0]), source)
    if "#" in bare:
        raise FormulaError("a formula has no comments", source, bare.index("#"), len(source))
    if run := _RUN_INTO.search(bare):
        hint = "" if iskeyword(run[2]) else f"; write {run[1]}*{run[2]}"
        raise FormulaError(f"{run[0]!r} is not a number{hint}", source, *run.span())
    return _LITERAL.sub(_escaped, source) if "\\" in source else source


def _escaped(literal: re.Match[str]) -> str:
    if "r" in literal[1].lower():
        return literal[0]
    return literal[1] + _ESCAPE.sub(r"\\\g<0>", literal[2])


def _tree(source: str) -> ast.Expression:
    """Return the syntax tree.

    Some versions of Python miscount its depth if several threads parse at the same time
    (gh-106905).
    """
    for _ in range(99):
        with suppress(SystemError):
            return ast.parse(source, mode="eval")
    return ast.parse(source, mode="eval")
