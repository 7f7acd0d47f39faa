"""Formula → text that parses back to it, and → a drawn tree."""

from __future__ import annotations

from collections.abc import Iterator

from marith.formula.compounds import Agreed, Mixture, Posterior, Relu, SelfDebias, Where
from marith.formula.factors import Arithmetic, Comparison, Extreme, Factor, Node, Sigmoid
from marith.formula.measures import Balance, Decay, Divergence, First, Indicator, Shape, Strength
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
from marith.formula.spelling import term_text

_SUM, _PRODUCT, _ATOM = 1, 2, 3
_START, _END = "\ue000", "\ue001"


def to_text(node: Node) -> str:
    """A formula, or a part of one, in Python's arithmetic: `parse(to_text(f)) == f`."""
    return _text(node, _SUM, None)


def times_text(factor: Factor) -> str:
    """A factor as it stands before what it multiplies, in parentheses if need be."""
    return _text(factor, _PRODUCT, None)


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
        text, own = number_text(node), _PRODUCT if node < 0 else _ATOM
    else:
        text, own = _bare(node, part)
    if own < outer:
        text = f"({text})"
    return f"{_START}{text}{_END}" if node is part else text


def _bare(node: Node, part: Node | None) -> tuple[str, int]:
    """A node's text without outer parentheses, and how tightly it binds."""
    match node:
        case Sum(members):
            return _sum_text(members, part), _SUM
        case Scaled(-1.0, of):
            return "-" + _text(of, _PRODUCT, part), _PRODUCT
        case Scaled(factor, of):
            return f"{_text(factor, _PRODUCT, part)}*{_text(of, _ATOM, part)}", _PRODUCT
        case Cut(of, kind, bound):
            return f"{_text(of, _ATOM, part)}.{kind}({number_text(bound)})", _ATOM
        case Tempered(of, at):
            return f"{_text(of, _ATOM, part)}.temperature({number_text(at)})", _ATOM
        case Name(name):
            return name, _ATOM
        case Arithmetic("*", -1.0, of):
            return "-" + _text(of, _ATOM, part), _PRODUCT
        case Arithmetic("*" | "/" as operator, left, right):
            return f"{_text(left, _PRODUCT, part)}{operator}{_text(right, _ATOM, part)}", _PRODUCT
        case Arithmetic(operator, left, right):
            return f"{_text(left, _SUM, part)} {operator} {_text(right, _PRODUCT, part)}", _SUM
        case Comparison(left, relation, right):
            return f"{_text(left, _SUM, part)} {relation} {_text(right, _SUM, part)}", _SUM
    name, arguments = _call(node)
    if not name:
        return term_text(node, to_text), _ATOM
    inside = ", ".join(a if isinstance(a, str) else _text(a, _SUM, part) for a in arguments)
    return f"{name}({inside})", _ATOM


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


def _sum_text(members: tuple[Formula, ...], part: Node | None) -> str:
    text = _text(members[0], _PRODUCT, part)
    for member in members[1:]:
        positive = None if member is part else _negated(member)
        if positive is None:
            text += " + " + _text(member, _PRODUCT, part)
        else:
            text += " - " + _text(positive, _PRODUCT, part)
    return text


def _negated(member: Formula) -> Formula | None:
    """What is taken away by a member that is written with a minus."""
    match member:
        case Scaled(float() as factor, of) if factor < 0:
            return of if factor == -1 else Scaled(-factor, of)
        case Scaled(Arithmetic("*", float() as number, factor), of) if number < 0:
            return Scaled(factor if number == -1 else Arithmetic("*", -number, factor), of)
    return None


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
