"""A formula in plain sight: its tree, its weights, what it normalises to, what may surprise."""

from __future__ import annotations

from collections.abc import Iterator

from marith.formula.meaning.binding import Terms, names_in, parse, resolve
from marith.formula.meaning.checking import check
from marith.formula.meaning.weights import Weights
from marith.formula.tree.factors import Arithmetic
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
from marith.formula.tree.printing import _SUM, _text, number_text, times_text, to_text
from marith.formula.tree.terms import Classifier, Prompted


def explain(formula: str | Formula, terms: Terms | None = None) -> str:
    """The formula, its tree, total weight, normalised form and warnings, as text.

    A name that is neither `M` nor in `terms` stands for some prompted model, except `C`, which
    stands for some classifier as in the paper. Raises FormulaError for what means nothing.
    """
    tree = parse(formula)
    known = resolve(terms)
    for name in names_in(tree) if terms is None else ():
        known.setdefault(name, _stand_in(name))
    warnings = check(tree, known)
    weights = Weights(known)
    lines = [
        to_text(tree),
        "",
        draw_tree(tree),
        "",
        f"total weight: {weights.of(tree)}",
        f"normalised:   log P = {normalised(tree, weights)}  (+ constant)",
    ]
    return "\n".join(lines + [f"warning: {warning}" for warning in warnings])


def normalised(formula: Formula, weights: Weights) -> str:
    """The formula divided by its weight, a union beside one of its members written with relu.

    `M - 0.96*union(toxic, M)` is `log M − 24·relu(log toxic − log M)`.
    """
    weight = weights.of(formula)
    if weight.constant is None:  # differs from context to context, and so stands below the whole
        return f"({_written(formula, 1.0, weights)}) / ({weight})"
    return _written(formula, 1.0 / weight.constant, weights)


def _written(formula: Formula, scale: float, weights: Weights) -> str:
    """So many times a score, what occurs twice taken together."""
    factors: dict[Formula, float] = {}
    for factor, atom in _linear(formula, scale, weights):
        factors[atom] = factors.get(atom, 0.0) + factor * _own(atom, weights)
    pieces: list[tuple[float, str]] = []
    for atom in list(factors):
        if isinstance(atom, Union | Intersection):
            pieces.append(_as_relu(atom, factors, weights))
    plain = [(f, _log(a, weights)) for a, f in factors.items() if not _is_pair(a)]
    written = [(f, text) for f, text in plain + pieces if abs(f) > 1e-9]
    return _signed(written) or "0"


def _linear(formula: Formula, factor: float, weights: Weights) -> list[tuple[float, Formula]]:
    """Factors and what they multiply; a name for something with no weight above 0 is opened."""
    match formula:
        case Sum(members):
            return [piece for member in members for piece in _linear(member, factor, weights)]
        case Scaled(float() as inner, of):
            return _linear(of, factor * inner, weights)
        case Scaled(Arithmetic("*", float() as inner, rest), of):
            return _linear(Scaled(rest, of), factor * inner, weights)
        case Name(name) if isinstance(weights.terms[name], Sum | Scaled):
            if weights.of(formula).least <= 0:
                return _linear(weights.terms[name], factor, weights)
    return [(factor, formula)]


def _as_relu(
    pair: Union | Intersection, factors: dict[Formula, float], weights: Weights
) -> tuple[float, str]:
    """max(a, b) = b + relu(a − b) and min(a, b) = b − relu(b − a); moves the b into `factors`."""
    factor, members = factors[pair], pair.members
    beside = next((m for m in members if m in factors and not _is_pair(m)), None)
    if len(members) != 2 or beside is None:
        name = "max" if isinstance(pair, Union) else "min"
        return factor, f"{name}({', '.join(_log(m, weights) for m in members)})"
    factors[beside] += factor
    other = members[0] if members[1] == beside else members[1]
    if isinstance(pair, Union):
        return factor, f"relu({_log(other, weights)} − {_log(beside, weights)})"
    return -factor, f"relu({_log(beside, weights)} − {_log(other, weights)})"


def _is_pair(formula: Formula) -> bool:
    return isinstance(formula, Union | Intersection)


def _own(atom: Formula, weights: Weights) -> float:
    """How often `_log` of an atom stands for its score: "log t" is a log-distribution."""
    return 1.0 if isinstance(atom, Scaled) else weights.of(atom).constant or 1.0


def _log(formula: Formula, weights: Weights) -> str:
    """An atom's score, less what `_own` says."""
    if isinstance(formula, Scaled):  # by what differs from context to context
        inner = _linear(formula.of, 1.0, weights)
        alone = len(inner) == 1 and inner[0][0] * _own(inner[0][1], weights) == 1.0
        text = _written(formula.of, 1.0, weights)
        return f"{times_text(formula.factor)}·{text if alone else f'({text})'}"
    if isinstance(formula, Relu):
        return f"relu({_written(formula.of, 1.0, weights)})"
    weight = weights.of(formula)
    if weight.constant == 0.0:  # a number for each token, and no distribution
        return to_text(formula)
    log = f"log ({to_text(formula)})" if isinstance(formula, Sum) else f"log {to_text(formula)}"
    return log if weight.constant is not None else f"({weight})·{log}"


def _signed(pieces: list[tuple[float, str]]) -> str:
    text = ""
    for factor, piece in pieces:
        sign = ("−" if factor < 0 else "") if not text else (" − " if factor < 0 else " + ")
        size = _rounded(abs(factor))
        text += f"{sign}{'' if size == '1' else size + '·'}{piece}"
    return text


def _rounded(value: float) -> str:
    return number_text(float(f"{value:.6g}"))


def _stand_in(name: str) -> Formula:
    return Classifier(name) if name == "C" else Prompted(system=name)


def draw_tree(formula: Formula) -> str:
    """The formula as a drawn tree, one node a line."""
    return "\n".join(_tree(formula, "", "", ""))


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
