"""Formula → text that parses back to it, and → a drawn tree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from marith.formula.bounds import MAX_ROW
from marith.formula.compounds import Agreed, Mixture, Posterior, Relu, SelfDebias, Where
from marith.formula.factors import Arithmetic, Comparison, Extreme, Factor, Sigmoid
from marith.formula.measures import Balance, Decay, Divergence, First, Indicator, Shape, Strength
from marith.formula.node import Node
from marith.formula.nodes import (
    Cut,
    Formula,
    Intersection,
    Name,
    Scaled,
    Sum,
    Supersede,
    Tempered,
    Union,
    Unscaled,
    children,
)
from marith.formula.spelling import term_pieces

Piece: TypeAlias = "str | tuple[Node | float, int]"  # a part, and how tightly it has to bind

_SUM, _PRODUCT, _ATOM = 1, 2, 3
_START, _END = "\ue000", "\ue001"


def to_text(node: Node) -> str:
    """A formula, or a part of one, in Python's arithmetic: `parse(to_text(f)) == f`."""
    return _text(node, _SUM, None)


def times_text(factor: Factor) -> str:
    """A factor as it stands before what it multiplies, in parentheses if need be."""
    return _text(factor, _PRODUCT, None)


def letters(node: Node) -> int:
    """In how many letters a node is printed, at the most; each term counts as one."""
    if isinstance(node, Sum):  # where one is taken away, a minus takes the place of a plus
        rows = math.ceil(len(node.members) / MAX_ROW)
        return sum(member.letters + 3 for member in node.members) - 3 + 2 * rows * (rows > 1)
    return sum(map(_length, _pieces(node, None)))


def locate(formula: Formula, part: Node) -> tuple[str, int, int]:
    """The formula's text, and where in it this very part begins and ends."""
    marked = _text(formula, _SUM, part)
    text = marked.replace(_START, "").replace(_END, "")
    start = marked.find(_START)
    return (text, start, marked.find(_END) - 1) if start >= 0 else (text, 0, len(text))


def number_text(value: float) -> str:
    """A number as one writes it: 2, not 2.0."""
    return repr(value).removesuffix(".0")


def draw_tree(formula: Formula) -> str:
    """The formula as a drawn tree, one node a line."""
    return "\n".join(_tree(formula, "", "", ""))


def _text(node: Node | float, outer: int, part: Node | None) -> str:
    if isinstance(node, float):
        text = number_text(node)
    else:
        pieces = _pieces(node, part)
        text = "".join([p if isinstance(p, str) else _text(*p, part) for p in pieces])
    if _binding(node) < outer:
        text = f"({text})"
    return f"{_START}{text}{_END}" if node is part else text


def _length(piece: Piece) -> int:
    if isinstance(piece, str):
        return len(piece)
    node, outer = piece
    length = len(number_text(node)) if isinstance(node, float) else node.letters
    return length + 2 * (_binding(node) < outer)


def _binding(node: Node | float) -> int:
    """How tightly a node's text binds without parentheses around it."""
    match node:
        case float():
            return _PRODUCT if node < 0 else _ATOM
        case Sum() | Comparison() | Arithmetic("+" | "-"):
            return _SUM
        case Scaled() | Arithmetic():
            return _PRODUCT
    return _ATOM


def _pieces(node: Node, part: Node | None) -> list[Piece]:
    """What a node is written with, without parentheses around it; `part` keeps its own sign."""
    match node:
        case Sum(members) if len(members) > MAX_ROW:
            pieces: list[Piece] = []
            for i in range(0, len(members), MAX_ROW):
                pieces += [" + ", (Sum(members[i : i + MAX_ROW]), _ATOM)]
            return pieces[1:]
        case Sum(members):
            rest = [piece for member in members[1:] for piece in _addend(member, part)]
            return [(members[0], _PRODUCT), *rest]
        case Scaled(-1.0, of):
            return ["-", (of, _PRODUCT)]
        case Scaled(factor, of):
            return [(factor, _PRODUCT), "*", (of, _ATOM)]
        case Cut(of, kind, bound):
            return [(of, _ATOM), f".{kind}({number_text(bound)})"]
        case Tempered(of, at):
            return [(of, _ATOM), f".temperature({number_text(at)})"]
        case Name(name):
            return [name]
        case Arithmetic("*", -1.0, of):
            return ["-", (of, _ATOM)]
        case Arithmetic("*" | "/" as operator, left, right):
            return [(left, _PRODUCT), operator, (right, _ATOM)]
        case Arithmetic(operator, left, right):
            return [(left, _SUM), f" {operator} ", (right, _PRODUCT)]
        case Comparison(left, relation, right):
            return [(left, _SUM), f" {relation} ", (right, _SUM)]
    name, arguments = _call(node)
    if not name:
        return [p if isinstance(p, str) else (p, _SUM) for p in term_pieces(node)]
    inside = [p if isinstance(p, str) else (p, _SUM) for p in arguments]
    commas = [", "] * len(inside)
    return [f"{name}(", *[p for pair in zip(inside, commas, strict=True) for p in pair][:-1], ")"]


def _call(node: Node) -> tuple[str, list[Node | float | str]]:
    """The name and the arguments of what is written as a call; no name for a term."""
    match node:
        case Union() | Intersection() | Supersede() | Unscaled() | Relu() | Posterior():
            return type(node).__name__.lower(), [*children(node)]
        case Mixture(weights, members):
            pairs = zip(weights, members, strict=True)
            return "mixture", [part for pair in pairs for part in pair]
        case Where(condition, then, otherwise):
            return "where", [condition, then, otherwise]
        case SelfDebias(of, biased, decay, floor):
            named = [f"decay={number_text(decay)}"] * (decay != 50)
            named += [f"floor={number_text(floor)}"] * (floor != 0.01)
            return "self_debias", [of, *biased, *named]
        case Agreed(members, count):
            return "agreed", [*members, *([f"count={count}"] * (count != 5))]
    return _factor_call(node)


def _factor_call(node: Node) -> tuple[str, list[Node | float | str]]:
    match node:
        case Divergence(first, second, None):
            return "jsd", [first, second]
        case Divergence(first, second, float() as order):
            named = [f"order={number_text(order)}"] * (order != 0.5)
            return "renyi", [first, second, *named]
        case Shape(kind, of):
            return kind, [of]
        case Extreme(kind, of):
            return kind, [*of]
        case Indicator(of) | Strength(of) | Sigmoid(of):
            return type(node).__name__.lower(), [of]
        case First(count):
            return "first", [str(count)]
        case Decay(half_life):
            return "decay", [half_life]
        case Balance(first, second):
            return "balance", [first, second]
    return "", []


def _addend(member: Formula, part: Node | None) -> list[Piece]:
    """A sign, and what is added or taken away."""
    match member:
        case Scaled(float() as factor, of) if factor < 0 and member is not part:
            size: list[Piece] = [] if factor == -1 else [number_text(-factor), "*"]
            return [" - ", *size, (of, _ATOM if size else _PRODUCT)]
        case Scaled(Arithmetic("*", float() as number, factor), of) if number < 0:
            if member is not part:
                size = [] if number == -1 else [number_text(-number), "*"]
                return [" - ", *size, (factor, _ATOM if size else _PRODUCT), "*", (of, _ATOM)]
    return [" + ", (member, _PRODUCT)]


def _tree(formula: Formula, lead: str, rest: str, factor: str) -> Iterator[str]:
    parts: list[tuple[str, Formula]] = [("", child) for child in children(formula)]
    match formula:
        case Scaled(number, of):
            yield from _tree(of, lead, rest, f"{factor}{times_text(number)} × ")
            return
        case Cut(_, kind, bound):
            label = f"{kind}({number_text(bound)})"
        case Tempered(_, at):
            label = f"temperature({number_text(at)})"
        case Where(condition):
            label = f"where {_text(condition, _SUM, None)}"
            parts = [("then ", formula.then), ("else ", formula.otherwise)]
        case Mixture(weights, members):
            label = "mixture"
            shares = [f"{times_text(weight)} × " for weight in weights]
            parts = list(zip(shares, members, strict=True))
        case SelfDebias(_, _, decay, floor):
            label = f"self_debias, decay {number_text(decay)}, floor {number_text(floor)}"
        case Agreed(_, count):
            label = f"agreed, at least {count}"
        case Sum() | Union() | Intersection() | Supersede() | Unscaled() | Relu() | Posterior():
            label = type(formula).__name__.lower()
        case _:
            label = to_text(formula)
    yield f"{lead}{factor}{label}"
    for i, (share, part) in enumerate(parts):
        last = i == len(parts) - 1
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        yield from _tree(part, rest + branch, rest + below, share)
