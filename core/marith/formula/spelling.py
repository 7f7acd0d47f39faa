"""Terms and plain values as text that parses back to them."""

from __future__ import annotations

from marith.formula.node import Node
from marith.formula.nodes import Formula
from marith.formula.terms import (
    Classifier,
    Judgement,
    Likelihood,
    NGram,
    Position,
    Prompted,
    Uniform,
)


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
