"""Formula → text that parses back to it, and → a drawn tree."""

from __future__ import annotations

import math
from typing import TypeAlias

from marith.formula.tree.bounds import MAX_ROW
from marith.formula.tree.factors import Arithmetic, Comparison, Extreme, Factor, Sigmoid
from marith.formula.tree.node import Node
from marith.formula.tree.nodes import Cut, Formula, Name, Scaled, Sum, Tempered, children
from marith.formula.tree.operators import (
    Agreed,
    Intersection,
    Mixture,
    Posterior,
    Relu,
    SelfDebias,
    Supersede,
    Union,
    Unscaled,
    Where,
)
from marith.formula.tree.signals import (
    Balance,
    Decay,
    Divergence,
    First,
    Indicator,
    Shape,
    Strength,
)
from marith.formula.tree.terms import (
    Classifier,
    Judgement,
    Likelihood,
    NGram,
    Position,
    Prompted,
    Uniform,
)

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


def term_pieces(term: Node) -> list[str | Formula]:
    """A term as a call, and between its texts the formulas in it."""
    match term:
        case Prompted(system, mode, hide, model, template, options, adapter, exit_layer):
            given = [_quoted(system)] if system else []
            given += _keywords(
                mode=(mode, "append"),
                hide=(hide, None),
                model=(model, None),
                adapter=(adapter, None),
                template=(template, None),
                options=(dict(options), {}),
                exit_layer=(exit_layer, None),
            )
            return [f"prompted({', '.join(given)})"]
        case Classifier(model, label, candidates, guide, read_prompt, coverage, scale):
            given = [_quoted(model), *_keywords(label=(label, 1), candidates=(candidates, 50))]
            rest = _keywords(
                read_prompt=(read_prompt, False), coverage=(coverage, None), scale=(scale, "log")
            )
            if guide is None:
                return [f"classifier({', '.join([*given, *rest])})"]
            return [f"classifier({', '.join([*given, 'guide='])}", guide, *_after(rest), ")"]
        case NGram(path, order, texts, online):
            given = [_quoted(path)] if path is not None else []
            given += _keywords(order=(order, 2), texts=(list(texts), []), online=(online, False))
            return [f"ngram({', '.join(given)})"]
        case Uniform():
            return ["uniform()"]
        case Position():
            return ["position()"]
        case Judgement(model, label, read_prompt):
            named = _keywords(label=(label, 1), read_prompt=(read_prompt, False))
            return [f"strength(classifier({', '.join([_quoted(model), *named])}))"]
        case Likelihood(of):
            return ["likelihood(", of, ")"]
    raise TypeError(f"a formula has no node {type(term).__name__}")


def _after(arguments: list[str]) -> list[str]:
    return [f", {one}" for one in arguments]


def _keywords(**values: tuple[object, object]) -> list[str]:
    """`name=value` for all that differ from their defaults."""
    return [f"{name}={_quoted(v)}" for name, (v, default) in values.items() if v != default]


def _quoted(value: object) -> str:
    """A Python literal, with double quotes where they need no escape."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_quoted(k)}: {_quoted(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(_quoted(item) for item in value) + "]"
        case str() if '"' not in value and "'" not in value:
            return f'"{repr(value)[1:-1]}"'
    return repr(value)
