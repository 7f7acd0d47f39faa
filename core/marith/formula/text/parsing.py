"""Parses formula text: Python's arithmetic, read as a syntax tree and never run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeVar

from marith.errors import FormulaError, Untrusted, shown
from marith.formula.text import advice, packages
from marith.formula.text.advice import METHODS
from marith.formula.text.calls import BUILT_IN, CALLS, misfit, near, opens_files
from marith.formula.text.calls import define as define
from marith.formula.text.syntax import read_tree
from marith.formula.tree.bounds import MAX_DEPTH, MAX_NODES
from marith.formula.tree.factors import Comparison, Varying, is_number, number
from marith.formula.tree.node import Node
from marith.formula.tree.nodes import Formula, Name, added
from marith.formula.tree.terms import Prompted

T = TypeVar("T")

Value: TypeAlias = "Node | float | int | str | bool | list[Any] | dict[Any, Any] | None"

PLAIN = ("system", "mode")  # the arguments of `prompted` in untrusted text
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_RELATIONS: Mapping[type[ast.cmpop], str] = {
    ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=",
}  # fmt: skip


def parse_text(text: str, allowed: Collection[str] | None = None) -> Formula:
    """The formula of a text; names that are no calls stay names.

    Where `allowed` is not None, the text is untrusted: it names no model, file or expression,
    `prompted` has only the arguments `system` and `mode`, and functions that are not marith's own
    are called only if `allowed` lists them. Raises FormulaError, with the text quoted and a caret,
    for anything else.
    """
    source, tree = read_tree(text)
    if isinstance(tree.body, (ast.List, ast.Tuple)):
        problem = f"a formula needs a term; this is a list{advice.of_list(source)}"
        raise FormulaError(problem, source, 0, len(source))
    value = _Reader(source, allowed).read(tree.body, 0)
    if not isinstance(value, Formula):
        kind = "the factor " if isinstance(value, Varying) else ""
        problem = f"a formula needs a term; this is {kind}{shown(value)}"
        raise FormulaError(problem, source, 0, len(source))
    return value


class _Reader:
    """Turns one syntax tree into a formula; keeps the text so that errors can point into it."""

    def __init__(self, source: str, allowed: Collection[str] | None) -> None:
        self.source = source
        self.names: dict[str, Name] = {}
        self.trusted = allowed is None
        self.callable = {*BUILT_IN, *(allowed or ())}

    def read(self, node: ast.expr, depth: int) -> Value:
        if depth > MAX_DEPTH + 2:  # the options of a term are deeper, and so are rows of a sum
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
                raise self.error(f"{name!r} has no meaning in a formula{self.meant(name)}", node)
            case ast.Compare(left=left, ops=[relation], comparators=[right]):
                return self.comparison(left, _RELATIONS.get(type(relation), ""), right, node, depth)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.read(item, depth + 1) for item in items]
            case ast.Dict(keys=keys, values=values):
                return {
                    self.key(k, node): self.read(v, depth + 1)
                    for k, v in zip(keys, values, strict=True)
                }
        raise self.error(advice.of_node(self.source, node), node)

    def comparison(
        self, left: ast.expr, relation: str, right: ast.expr, node: ast.expr, depth: int
    ) -> Comparison:
        sides = [self.arithmetic(left, depth), self.arithmetic(right, depth)]
        formula = next((side for side in sides if isinstance(side, Formula)), None)
        if formula is not None or not relation or all(map(is_number, sides)):
            raise self.error(
                "this has no meaning: a condition compares factors, by >, >=, < or <=", node
            )
        return Comparison(sides[0], relation, sides[1])

    def key(self, key: ast.expr | None, within: ast.Dict) -> str:
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise self.error("options are named by texts", key or within)
        return key.value

    def binary(self, node: ast.BinOp, depth: int) -> Value:
        """A chain of operators, from left to right; its length does not count as depth."""
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and type(left.op) in _OPERATORS:
            chain.append(left)
            left = left.left
        if len(chain) >= MAX_NODES:
            raise self.error(
                f"a chain of {len(chain)} operators; {MAX_NODES} parts are allowed", node
            )
        value: Any = self.arithmetic(left, depth)
        addends: list[Formula] = []  # a sum of formulas is built at once
        for operation in reversed(chain):
            right = self.arithmetic(operation.right, depth)
            formulas = isinstance(value, Formula) and isinstance(right, Formula)
            if formulas and isinstance(operation.op, (ast.Add, ast.Sub)):
                subtracted = isinstance(operation.op, ast.Sub)
                addends = addends or [value]
                addends.append(self.built(operation, right.__neg__) if subtracted else right)
            else:
                value, addends = self.summed(node, value, addends), []
                value = self.apply(operation, value, right)
        whole: Value = self.summed(node, value, addends)
        return whole

    def summed(self, node: ast.expr, value: Any, addends: list[Formula]) -> Any:
        return self.built(node, lambda: added(*addends)) if addends else value

    def apply(self, operation: ast.BinOp, left: Any, right: Any) -> Any:
        combine = _OPERATORS[type(operation.op)]
        if is_number(left) and is_number(right):
            return self.built(operation, lambda: number(combine(float(left), float(right))))
        return self.built(operation, lambda: combine(left, right))

    def arithmetic(self, node: ast.expr, depth: int) -> Any:
        if isinstance(node, ast.Tuple):
            hint = advice.of_list(self.source)
            raise self.error(f"a list has no place in a sum or a product{hint}", node)
        value = self.read(node, depth + 1)
        if isinstance(value, (Formula, Varying)):
            return value
        if not is_number(value):
            raise self.error(
                "only terms and numbers, or factors, can be added and multiplied", node
            )
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

    def meant(self, name: str) -> str:
        """The end of a sentence about a call without a meaning; "" where nothing resembles it."""
        if name in METHODS:
            return f"; a formula has it: M.{name}(…)"
        return near(name, packages.offered() if self.trusted else ())

    def is_call(self, name: str, node: ast.Call) -> bool:
        """Whether formulas call a name; for untrusted text no package is asked."""
        return name in CALLS or (self.trusted and self.built(node, lambda: packages.load(name)))

    def check_trust(self, name: str, node: ast.Call) -> None:
        """Raises Untrusted for a call, or an argument of it, that untrusted text may not have."""
        if name not in self.callable:
            problem = f"{name} is not for text from others: the application does not allow it"
            raise self.error(problem, node, Untrusted)
        if opens_files(name):
            raise self.error(f"{name} is not for text from others", node, Untrusted)
        if CALLS[name] is Prompted:
            refused = [*node.args[2:], *(k.value for k in node.keywords if k.arg not in PLAIN)]
            if refused:
                problem = f"in text from others {name} takes {' and '.join(PLAIN)} alone"
                raise self.error(problem, refused[0], Untrusted)

    def built(self, node: ast.expr, build: Callable[[], T]) -> T:
        """The result of `build`; its errors get a caret under the node."""
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
    """The number of characters before a byte offset: `ast` counts the bytes of UTF-8."""
    return len(source.encode()[:byte_offset].decode(errors="ignore"))
