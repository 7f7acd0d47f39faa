"""Explain a formula as text: its tree, total weight, normalised form and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TypeAlias

from marith.errors import shown
from marith.formula.meaning.binding import Terms, bind, names_in, resolve
from marith.formula.meaning.checking import warnings_of
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.weights import Weights
from marith.formula.text.trust import parse
from marith.formula.tree.factors import Arithmetic
from marith.formula.tree.nodes import Cut, Formula, Name, Scaled, Sum, Tempered, children
from marith.formula.tree.operators import (
    Agreed,
    Intersection,
    Mixture,
    Relu,
    SelfDebias,
    Union,
    Where,
)
from marith.formula.tree.printing import number_text, times_text, to_text, unquoted
from marith.formula.tree.terms import Classifier, Prompted

# The paper's formulas call a classifier C.
CLASSIFIER = "C"
Branches: TypeAlias = list[tuple[str, Formula]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of a formula. As text it is the result of `explain`.

    `tree` has the depth and the text of each node. `weight` is the total weight, and `normalised`
    is the formula divided by it. `vectors` has a sentence about each term with control vectors.
    `names` has each name in the formula once.
    """

    formula: str
    tree: tuple[tuple[int, str], ...]
    weight: str
    normalised: str
    vectors: tuple[str, ...]
    warnings: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, formula: str | Formula, terms: Terms | None = None) -> Explanation:
        """Explain a formula. Raises FormulaError for a formula without a meaning.

        Without `terms`, `C` is a classifier, as in the paper, and all other names except `M` are
        prompted models.
        """
        tree = parse(formula)
        names = tuple(dict.fromkeys(names_in(tree)))
        stand_ins = {} if terms is not None else {name: _stand_in(name) for name in names}
        resolved = resolve(terms if terms is not None else stand_ins)
        warnings = warnings_of(tree, resolved)
        weights = Weights(resolved)
        return cls(
            to_text(tree),
            tuple(nodes_of(tree)),
            str(weights.of(tree)),
            f"log P = {normalised(tree, weights)}  (+ constant)",
            tuple(sentences_of_vectors(bind(tree, resolved), resolved)),
            tuple(map(str, warnings)),
            names,
        )

    def without_texts(self) -> Explanation:
        """Return the explanation with "…" in place of each text that is quoted in the formula."""
        return replace(
            self,
            formula=unquoted(self.formula),
            tree=tuple((depth, unquoted(text)) for depth, text in self.tree),
            weight=unquoted(self.weight),
            normalised=unquoted(self.normalised),
            vectors=tuple(map(unquoted, self.vectors)),
            warnings=tuple(map(unquoted, self.warnings)),
        )

    def __str__(self) -> str:
        lines = [
            self.formula,
            "",
            draw_tree(self.tree),
            "",
            f"total weight: {self.weight}",
            f"normalised:   {self.normalised}",
        ]
        lines += [f"vectors:      {sentence}" for sentence in self.vectors]
        return "\n".join(lines + [f"warning: {warning}" for warning in self.warnings])


def explain(formula: str | Formula, terms: Terms | None = None) -> str:
    """Return a formula's text, tree, total weight, normalised form and warnings as one text.

    `terms` and errors are as for `Explanation.of`.
    """
    return str(Explanation.of(formula, terms))


def sentences_of_vectors(formula: Formula, names: Mapping[str, Formula]) -> Iterator[str]:
    """Yield a sentence about each term of a bound formula that has control vectors."""
    spelled = {meaning: name for name, meaning in reversed([*names.items()])}
    for term in leaves(formula):
        if isinstance(term, Prompted) and term.vectors:
            added = " and ".join(f"{number_text(s)} × {shown(file)}" for file, s in term.vectors)
            everywhere = term.positions == "all"
            where = "of all tokens" if everywhere else "from the last token of the prompt on"
            name = spelled.get(term, to_text(term))
            yield f"{name} adds {added} to the hidden states {where}"


def normalised(formula: Formula, weights: Weights) -> str:
    """Return a formula, divided by its weight, as text.

    A union that is added to one of its members is written with relu: `M - 0.96*union(toxic, M)` is
    `log M − 24·relu(log toxic − log M)`.
    """
    weight = weights.of(formula)
    if weight.constant is None:
        # The weight differs from context to context, so it cannot be divided out.
        return f"({_written(formula, 1.0, weights)}) / ({weight})"
    return _written(formula, 1.0 / weight.constant, weights)


def _written(formula: Formula, scale: float, weights: Weights) -> str:
    """Return the score of a formula times `scale` as text. Equal formulas are added up."""
    factors: dict[Formula, float] = {}
    for factor, atom in addends(formula, scale, weights):
        factors[atom] = factors.get(atom, 0.0) + factor * _weight_in_log(atom, weights)
    pieces: list[tuple[float, str]] = []
    for atom in list(factors):
        if isinstance(atom, Union | Intersection):
            pieces.append(_as_relu(atom, factors, weights))
    plain = [(f, log_text(a, weights)) for a, f in factors.items() if not _is_pair(a)]
    written = [(f, text) for f, text in plain + pieces if abs(f) > 1e-9]
    return _signed(written) or "0"


@singledispatch
def addends(formula: Formula, factor: float, _weights: Weights) -> list[tuple[float, Formula]]:
    """Return `factor` times a formula as summands: pairs of a factor and a formula.

    By default there is one summand, the formula itself.
    """
    return [(factor, formula)]


@addends.register
def _split_sum(total: Sum, factor: float, weights: Weights) -> list[tuple[float, Formula]]:
    return [piece for member in total.members for piece in addends(member, factor, weights)]


@addends.register
def _split_scaled(scaled: Scaled, factor: float, weights: Weights) -> list[tuple[float, Formula]]:
    match scaled.factor:
        case float() as number:
            return addends(scaled.of, factor * number, weights)
        case Arithmetic("*", float() as number, rest):
            return addends(Scaled(rest, scaled.of), factor * number, weights)
    return [(factor, scaled)]


@addends.register
def _split_name(name: Name, factor: float, weights: Weights) -> list[tuple[float, Formula]]:
    """Return the name itself, or the summands of its formula.

    A sum or product whose weight may be zero or less is split, because it has no distribution of
    its own.
    """
    named = weights.terms[name.name]
    if isinstance(named, Sum | Scaled) and weights.of(name).least <= 0:
        return addends(named, factor, weights)
    return [(factor, name)]


def _as_relu(
    pair: Union | Intersection, factors: dict[Formula, float], weights: Weights
) -> tuple[float, str]:
    """Write max(a, b) as b + relu(a − b), min(a, b) as b − relu(b − a); add b to `factors`."""
    factor, members = factors[pair], pair.members
    base = next((m for m in members if m in factors and not _is_pair(m)), None)
    if len(members) != 2 or base is None:
        name = "max" if isinstance(pair, Union) else "min"
        return factor, f"{name}({', '.join(log_text(m, weights) for m in members)})"
    factors[base] += factor
    other = members[0] if members[1] == base else members[1]
    if isinstance(pair, Union):
        return factor, f"relu({log_text(other, weights)} − {log_text(base, weights)})"
    return -factor, f"relu({log_text(base, weights)} − {log_text(other, weights)})"


def _is_pair(formula: Formula) -> bool:
    return isinstance(formula, Union | Intersection)


def _weight_in_log(atom: Formula, weights: Weights) -> float:
    """Return the number by which an atom's `log_text` is multiplied to give its score."""
    return 1.0 if isinstance(atom, Scaled) else weights.of(atom).constant or 1.0


@singledispatch
def log_text(formula: Formula, weights: Weights) -> str:
    """Return the score of an atom, divided by its `_weight_in_log`, as text."""
    weight = weights.of(formula)
    if weight.constant == 0.0:
        # A formula without weight is a number for each token, and not a distribution.
        return to_text(formula)
    log = f"log ({to_text(formula)})" if isinstance(formula, Sum) else f"log {to_text(formula)}"
    return log if weight.constant is not None else f"({weight})·{log}"


@log_text.register
def _write_log_of_scaled(scaled: Scaled, weights: Weights) -> str:
    """Write a formula multiplied by a factor that depends on the context."""
    inner = addends(scaled.of, 1.0, weights)
    bare = len(inner) == 1 and inner[0][0] * _weight_in_log(inner[0][1], weights) == 1.0
    text = _written(scaled.of, 1.0, weights)
    return f"{times_text(scaled.factor)}·{text if bare else f'({text})'}"


@log_text.register
def _write_log_of_relu(relu: Relu, weights: Weights) -> str:
    return f"relu({_written(relu.of, 1.0, weights)})"


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
    return Classifier(name) if name == CLASSIFIER else Prompted(system=name)


def draw_tree(tree: Sequence[tuple[int, str]]) -> str:
    """Return the depths and texts of nodes as a drawn tree, with one node on each line."""
    lines: list[str] = []
    # Nodes are drawn from the last to the first, so that it is known where another branch follows.
    followed: set[int] = set()
    for depth, text in reversed(tree):
        lead = "".join("│   " if at in followed else "    " for at in range(1, depth))
        branch = ("├── " if depth in followed else "└── ") if depth else ""
        lines.append(f"{lead}{branch}{text}")
        followed = {at for at in followed if at < depth} | {depth}
    return "\n".join(reversed(lines))


def nodes_of(formula: Formula, factor: str = "", depth: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the depth and the text of each node of a formula, from the top."""
    label, parts = label_of(formula, factor)
    yield depth, label
    for share, part in parts:
        yield from nodes_of(part, share, depth + 1)


def label_of(formula: Formula, factor: str = "") -> tuple[str, Branches]:
    """Return a formula's label in a drawn tree, with its factors, and the formulas below it."""
    while isinstance(formula, Scaled):
        factor += f"{times_text(formula.factor)} × "
        formula = formula.of
    label, below = drawn(formula)
    return f"{factor}{label}", below


@singledispatch
def drawn(formula: Formula) -> tuple[str, Branches]:
    """Return the label of a node, and the formulas below it, each with the text before it."""
    below = [("", child) for child in children(formula)]
    return type(formula).__name__.lower() if below else to_text(formula), below


@drawn.register
def _draw_cut(cut: Cut) -> tuple[str, Branches]:
    return f"{cut.kind}({number_text(cut.threshold)})", [("", cut.of)]


@drawn.register
def _draw_tempered(tempered: Tempered) -> tuple[str, Branches]:
    return f"temperature({number_text(tempered.at)})", [("", tempered.of)]


@drawn.register
def _draw_where(where: Where) -> tuple[str, Branches]:
    below: Branches = [("then ", where.then), ("else ", where.otherwise)]
    return f"where {to_text(where.condition)}", below


@drawn.register
def _draw_mixture(mixture: Mixture) -> tuple[str, Branches]:
    shares = [f"{times_text(weight)} × " for weight in mixture.weights]
    return "mixture", [*zip(shares, mixture.members, strict=True)]


@drawn.register
def _draw_self_debias(node: SelfDebias) -> tuple[str, Branches]:
    label = f"self_debias, decay {number_text(node.decay)}, floor {number_text(node.floor)}"
    return label, [("", child) for child in children(node)]


@drawn.register
def _draw_agreed(agreed: Agreed) -> tuple[str, Branches]:
    return f"agreed, at least {agreed.count}", [("", member) for member in agreed.members]
