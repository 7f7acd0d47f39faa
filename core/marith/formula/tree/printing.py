"""Print a formula as text that parses back to the formula, or without the texts quoted in it.

`pieces` and `precedence` have a function for each kind of node whose text is not a call. By default
a node is printed as a call: `Union((a, b))` as `union(a, b)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatch
from typing import TypeAlias

from marith.formula.tree.aligned import Aligned
from marith.formula.tree.factors import Arithmetic, Comparison, Extreme, Factor
from marith.formula.tree.node import Node, printed, printed_length
from marith.formula.tree.nodes import Cut, Formula, Name, Scaled, Sum, Tempered
from marith.formula.tree.operators import Agreed, Mixture, SelfDebias
from marith.formula.tree.signals import (
    ClassProb,
    Concentration,
    Decay,
    Divergence,
    First,
    Index,
    Inside,
)
from marith.formula.tree.terms import Classifier, Judgement, NGram, Prompted

# A piece is text, or a part of the formula with a precedence. The part needs parentheses if its own
# precedence is lower.
Piece: TypeAlias = str | tuple[Node | float, int]
SUM, PRODUCT, ATOM = 1, 2, 3

# A quotation that is not closed reaches to the end, so that no character is read twice.
QUOTED = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"""|\Z)|' r"'''(?:[^\\]|\\.)*?(?:'''|\Z)|"
    r'"[^"\\]*(?:\\.[^"\\]*)*"?|' r"'[^'\\]*(?:\\.[^'\\]*)*'?",
    re.DOTALL,
)  # fmt: skip
# A quotation mark after three letters is an apostrophe: the prefix of a Python string has at most
# two letters.
_QUOTATION = re.compile(rf"(?<![^\W_]{{3}})(?:{QUOTED.pattern})", re.DOTALL)
# No formula's text has these private characters, because `repr` escapes them in quoted texts.
_START, _END = "\ue000", "\ue001"


@printed.register
def to_text(node: Node) -> str:
    """Return a formula, or a part of one, in Python's arithmetic: `parse(to_text(f)) == f`."""
    return _text(node, SUM, None)


def without_texts(node: Node) -> str:
    """Return a node as text for logs and warnings, with "…" for each quoted text."""
    return unquoted(to_text(node))


def unquoted(text: str) -> str:
    """Return a formula's text, or a sentence about a formula, with "…" for each quoted text."""
    return _QUOTATION.sub('"…"', text)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which each key of `names` is replaced by its name.

    Each quoted text that remains becomes "…".
    """
    # The longest key goes first, because the text of a guide is a part of its classifier's text.
    for whole in sorted(names, key=len, reverse=True):
        text = text.replace(whole, names[whole])
    return unquoted(text)


def distinct(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts, with a number after a text that is repeated: `M`, `M (2)`."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts[text] += 1
        yield text if counts[text] == 1 else f"{text} ({counts[text]})"


def times_text(factor: Factor) -> str:
    """Return a factor as text before a multiplication sign, in parentheses if it needs them."""
    return _text(factor, PRODUCT, None)


def number_text(value: float) -> str:
    """Return a number as people write it: 2, not 2.0."""
    return repr(value).removesuffix(".0")


@printed_length.register
def _bound_length(node: Node) -> int:
    if isinstance(node, Sum):
        # " + " or " - " stands before each member except the first.
        return sum(member.letters + 3 for member in node.members) - 3
    return sum(map(_length, pieces(node)))


def locate(formula: Formula, part: Node) -> tuple[str, int, int]:
    """Return the formula's text, and the places in it where `part` begins and ends.

    Parts are compared by identity, because equal parts may stand in several places. A part that is
    not found spans the whole text.
    """
    marked = _text(formula, SUM, part)
    text = marked.replace(_START, "").replace(_END, "")
    start = marked.find(_START)
    return (text, start, marked.find(_END) - 1) if start >= 0 else (text, 0, len(text))


def call(name: str, *arguments: Node | float | str) -> list[Piece]:
    """Return the pieces of `name(…)`. An argument that is a text is printed unchanged."""
    written: list[Piece] = [f"{name}("]
    for index, argument in enumerate(arguments):
        written += [", "] if index else []
        written.append(argument if isinstance(argument, str) else (argument, SUM))
    return [*written, ")"]


@singledispatch
def precedence(_node: Node | float) -> int:
    """Return the precedence of a node's text, which decides where it needs parentheses."""
    return ATOM


@precedence.register
def _find_precedence_of_number(number: float) -> int:
    return PRODUCT if number < 0 else ATOM


@precedence.register
def _find_precedence_of_sum_or_comparison(_node: Sum | Comparison) -> int:
    return SUM


@precedence.register
def _find_precedence_of_scaled(_node: Scaled) -> int:
    return PRODUCT


@precedence.register
def _find_precedence_of_arithmetic(node: Arithmetic) -> int:
    return SUM if node.operator in "+-" else PRODUCT


@singledispatch
def pieces(node: Node) -> list[Piece]:
    """Return the text of a node in pieces, without parentheses around it."""
    return call(type(node).__name__.lower(), *node.inner)


@pieces.register
def _print_sum(total: Sum) -> list[Piece]:
    return _addends(total, None)


@pieces.register
def _print_scaled(scaled: Scaled) -> list[Piece]:
    if scaled.factor == -1.0:
        return ["-", (scaled.of, PRODUCT)]
    return [(scaled.factor, PRODUCT), "*", (scaled.of, ATOM)]


@pieces.register
def _print_cut(cut: Cut) -> list[Piece]:
    return [(cut.of, ATOM), f".{cut.kind}({number_text(cut.threshold)})"]


@pieces.register
def _print_tempered(tempered: Tempered) -> list[Piece]:
    return [(tempered.of, ATOM), f".temperature({number_text(tempered.at)})"]


@pieces.register
def _print_name(name: Name) -> list[Piece]:
    return [name.name]


@pieces.register
def _print_aligned(aligned: Aligned) -> list[Piece]:
    return [(aligned.of, ATOM)]


@pieces.register
def _print_mixture(mixture: Mixture) -> list[Piece]:
    pairs = zip(mixture.weights, mixture.members, strict=True)
    return call("mixture", *(part for pair in pairs for part in pair))


@pieces.register
def _print_self_debias(node: SelfDebias) -> list[Piece]:
    named = [f"decay={number_text(node.decay)}"] * (node.decay != 50)
    named += [f"floor={number_text(node.floor)}"] * (node.floor != 0.01)
    return call("self_debias", node.of, *node.biased, *named)


@pieces.register
def _print_agreed(agreed: Agreed) -> list[Piece]:
    return call("agreed", *agreed.members, *[f"count={agreed.count}"] * (agreed.count != 5))


@pieces.register
def _print_arithmetic(factor: Arithmetic) -> list[Piece]:
    operator, left, right = factor.operator, factor.left, factor.right
    if operator == "*" and left == -1.0:
        return ["-", (right, ATOM)]
    if operator in "*/":
        return [(left, PRODUCT), operator, (right, ATOM)]
    return [(left, SUM), f" {operator} ", (right, PRODUCT)]


@pieces.register
def _print_comparison(condition: Comparison) -> list[Piece]:
    return [(condition.left, SUM), f" {condition.relation} ", (condition.right, SUM)]


@pieces.register
def _print_extreme(factor: Extreme) -> list[Piece]:
    return call(factor.kind, *factor.of)


@pieces.register
def _print_divergence(factor: Divergence) -> list[Piece]:
    if factor.order is None:
        return call("jsd", factor.first, factor.second)
    named = [f"order={number_text(factor.order)}"] * (factor.order != 0.5)
    return call("renyi", factor.first, factor.second, *named)


@pieces.register
def _print_concentration(factor: Concentration) -> list[Piece]:
    return call(factor.kind, factor.of)


@pieces.register
def _print_class_prob(factor: ClassProb) -> list[Piece]:
    return call("class_prob", factor.judge)


@pieces.register
def _print_first(factor: First) -> list[Piece]:
    return call("first", str(factor.count))


@pieces.register
def _print_decay(factor: Decay) -> list[Piece]:
    return call("decay", factor.half_life)


@pieces.register
def _print_index(_factor: Index) -> list[Piece]:
    return call("position")


@pieces.register
def _print_inside(inside: Inside) -> list[Piece]:
    return call(inside.part)


@pieces.register
def _print_prompted(term: Prompted) -> list[Piece]:
    system = [_quoted(term.system)] if term.system else []
    return call("prompted", *system, *_keywords(
        mode=(term.mode, "append"), hide=(term.hide, None), model=(term.model, None),
        adapter=(term.adapter, None), vectors=(dict(term.vectors), {}),
        positions=(term.positions, "all"), template=(term.template, None),
        options=(dict(term.options), {}), exit_layer=(term.exit_layer, None),
        device=(term.device, None), dtype=(term.dtype, None),
    ))  # fmt: skip


@pieces.register
def _print_classifier(term: Classifier) -> list[Piece]:
    first = _keywords(label=(term.label, 1), candidates=(term.candidates, 50))
    rest = _keywords(read_prompt=(term.read_prompt, False), coverage=(term.coverage, None),
                     scale=(term.scale, "log"))  # fmt: skip
    if term.guide is None:
        return call("classifier", _quoted(term.model), *first, *rest)
    before = "".join([f"classifier({_quoted(term.model)}", *(f", {keyword}" for keyword in first)])
    after = "".join(f", {keyword}" for keyword in rest)
    return [f"{before}, guide=", (term.guide, SUM), f"{after})"]


@pieces.register
def _print_ngram(term: NGram) -> list[Piece]:
    arguments = [_quoted(term.path)] if term.path is not None else []
    arguments += _keywords(order=(term.order, 2), texts=(list(term.texts), []),
                           online=(term.online, False))  # fmt: skip
    return call("ngram", *arguments)


@pieces.register
def _print_judgement(term: Judgement) -> list[Piece]:
    named = _keywords(label=(term.label, 1), read_prompt=(term.read_prompt, False))
    return ["class_prob(", *call("classifier", _quoted(term.model), *named), ")"]


def _text(node: Node | float, least: int, part: Node | None) -> str:
    """Return a node as text, in parentheses if its precedence is below `least`.

    Private characters mark the beginning and the end of `part`.
    """
    if isinstance(node, float):
        text = number_text(node)
    else:
        written = _addends(node, part) if isinstance(node, Sum) else pieces(node)
        text = "".join([p if isinstance(p, str) else _text(*p, part) for p in written])
    if precedence(node) < least:
        text = f"({text})"
    return f"{_START}{text}{_END}" if node is part else text


def _length(piece: Piece) -> int:
    if isinstance(piece, str):
        return len(piece)
    node, least = piece
    length = len(number_text(node)) if isinstance(node, float) else node.letters
    return length + 2 * (precedence(node) < least)


def _addends(total: Sum, part: Node | None) -> list[Piece]:
    """Return the pieces of a sum.

    A negative member is subtracted, unless it is `part`: then its sign must lie between the marks.
    """
    first, *others = total.members
    return [(first, PRODUCT), *(piece for member in others for piece in _addend(member, part))]


def _addend(member: Formula, part: Node | None) -> list[Piece]:
    """Return a plus or minus, and the pieces of the member that is added or subtracted."""
    match member:
        case Scaled(float() as factor, of) if factor < 0 and member is not part:
            size: list[Piece] = [] if factor == -1 else [number_text(-factor), "*"]
            return [" - ", *size, (of, ATOM if size else PRODUCT)]
        case Scaled(Arithmetic("*", float() as number, factor), of) if number < 0:
            if member is not part:
                size = [] if number == -1 else [number_text(-number), "*"]
                return [" - ", *size, (factor, ATOM if size else PRODUCT), "*", (of, ATOM)]
    return [" + ", (member, PRODUCT)]


def _keywords(**values: tuple[object, object]) -> list[str]:
    """Return `name=value` for each value that differs from its default."""
    return [f"{name}={_quoted(v)}" for name, (v, default) in values.items() if v != default]


def _quoted(value: object) -> str:
    """Return a Python literal, with double quotes if they need no escape."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_quoted(k)}: {_quoted(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(_quoted(item) for item in value) + "]"
        case str() if '"' not in value and "'" not in value:
            return f'"{repr(value)[1:-1]}"'
    return repr(value)
