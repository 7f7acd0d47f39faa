"""Formula → text that parses back to it, and → a drawn tree."""

from __future__ import annotations

from collections.abc import Iterator

from marith.formula.nodes import (
    Cut,
    Formula,
    Intersection,
    Name,
    Scaled,
    Sum,
    Supersede,
    Union,
    Unscaled,
    children,
)
from marith.formula.terms import Classifier, NGram, Prompted, Uniform

_SUM, _PRODUCT, _ATOM = 1, 2, 3
_START, _END = "\ue000", "\ue001"


def to_text(formula: Formula) -> str:
    """The formula in Python's arithmetic: `parse(to_text(f)) == f`."""
    return _text(formula, _SUM, None)


def locate(formula: Formula, part: Formula) -> tuple[str, int, int]:
    """The formula's text, and where in it this very part begins and ends."""
    marked = _text(formula, _SUM, part)
    text = marked.replace(_START, "").replace(_END, "")
    start = marked.find(_START)
    return (text, start, marked.find(_END) - 1) if start >= 0 else (text, 0, len(text))


def number_text(value: float) -> str:
    """A factor as one writes it: 2, not 2.0."""
    return repr(value).removesuffix(".0")


def draw_tree(formula: Formula) -> str:
    """The formula as a drawn tree, one node a line."""
    return "\n".join(_tree(formula, "", "", ""))


def _text(formula: Formula, outer: int, part: Formula | None) -> str:
    text, own = _bare(formula, part)
    if own < outer:
        text = f"({text})"
    return f"{_START}{text}{_END}" if formula is part else text


def _bare(formula: Formula, part: Formula | None) -> tuple[str, int]:
    """A node's text without outer parentheses, and how tightly it binds."""
    match formula:
        case Sum(members):
            return _sum_text(members, part), _SUM
        case Scaled(-1.0, of):
            return "-" + _text(of, _PRODUCT, part), _PRODUCT
        case Scaled(factor, of):
            return f"{number_text(factor)}*{_text(of, _ATOM, part)}", _PRODUCT
        case Cut(of, kind, bound):
            return f"{_text(of, _ATOM, part)}.{kind}({number_text(bound)})", _ATOM
        case Union() | Intersection() | Supersede() | Unscaled():
            inside = ", ".join(_text(child, _SUM, part) for child in children(formula))
            return f"{type(formula).__name__.lower()}({inside})", _ATOM
        case Name(name):
            return name, _ATOM
    return _term_text(formula), _ATOM


def _sum_text(members: tuple[Formula, ...], part: Formula | None) -> str:
    text = _text(members[0], _PRODUCT, part)
    for member in members[1:]:
        if isinstance(member, Scaled) and member.factor < 0 and member is not part:
            positive = member.of if member.factor == -1 else Scaled(-member.factor, member.of)
            text += " - " + _text(positive, _PRODUCT, part)
        else:
            text += " + " + _text(member, _PRODUCT, part)
    return text


def _term_text(term: Formula) -> str:
    match term:
        case Prompted(system, mode, hide, model, template, options, adapter):
            given = [_quoted(system)] if system else []
            given += _keywords(
                mode=(mode, "append"),
                hide=(hide, None),
                model=(model, None),
                adapter=(adapter, None),
                template=(template, None),
                options=(dict(options), {}),
            )
            return f"prompted({', '.join(given)})"
        case Classifier(model, label, candidates, guide, read_prompt, coverage):
            given = [_quoted(model), *_keywords(label=(label, 1), candidates=(candidates, 50))]
            given += [f"guide={_text(guide, _SUM, None)}"] if guide is not None else []
            given += _keywords(read_prompt=(read_prompt, False), coverage=(coverage, None))
            return f"classifier({', '.join(given)})"
        case NGram(path, order, texts, online):
            given = [_quoted(path)] if path is not None else []
            given += _keywords(order=(order, 2), texts=(list(texts), []), online=(online, False))
            return f"ngram({', '.join(given)})"
        case Uniform():
            return "uniform()"
    raise TypeError(f"a formula has no node {type(term).__name__}")


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


def _tree(formula: Formula, lead: str, rest: str, factor: str) -> Iterator[str]:
    match formula:
        case Scaled(number, of):
            yield from _tree(of, lead, rest, f"{factor}{number_text(number)} × ")
            return
        case Cut(_, kind, bound):
            label = f"{kind}({number_text(bound)})"
        case Sum() | Union() | Intersection() | Supersede() | Unscaled():
            label = type(formula).__name__.lower()
        case _:
            label = to_text(formula)
    yield f"{lead}{factor}{label}"
    parts = children(formula)
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        yield from _tree(part, rest + branch, rest + below, "")
