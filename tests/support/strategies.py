"""Strategies of hypothesis: formulas built by the operators, and random distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from hypothesis import strategies as st
from torch import Tensor

from marith.formula.tree.factors import (
    RELATIONS,
    Comparison,
    Factor,
    Varying,
    maximum,
    minimum,
    sigmoid,
)
from marith.formula.tree.node import Node, descend
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.operators import (
    agreed,
    intersection,
    mixture,
    posterior,
    relu,
    self_debias,
    supersede,
    union,
    unscaled,
    where,
)
from marith.formula.tree.signals import (
    POSITION,
    balance,
    calling,
    class_prob,
    decay,
    entropy,
    first,
    indicator,
    jsd,
    judgement_of,
    likelihood_of,
    margin,
    max_prob,
    position,
    reasoning,
    renyi,
)
from marith.formula.tree.terms import RESERVED, SCALES, Classifier, NGram, Prompted, Term, Uniform

Some: TypeAlias = "st.SearchStrategy[Formula]"
World: TypeAlias = "Mapping[Term, Tensor]"

NAMES = ("M", "a", "b", "toxic", "C", "größe", "union")

texts = st.text(max_size=12) | st.sampled_from(
    ['"', "'", "\"'", "\n", "\r\n", "\t\x00\x1f\x7f", "\\", "\\n", "{x}", "# no", "\ue000\ue001"]
)
factors = st.floats(-8, 8, allow_nan=False).filter(lambda f: f == 0 or abs(f) > 1e-3)
fractions = st.floats(0, 1, exclude_min=True)
options = st.dictionaries(
    st.text(max_size=5).filter(lambda name: name not in RESERVED),
    st.booleans() | st.integers() | st.none() | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False), max_size=3,
)  # fmt: skip

names = st.sampled_from(NAMES).map(Name)
vectors = st.dictionaries(
    texts.filter(bool), st.floats(-9, 9) | st.integers(-9, 9), min_size=1, max_size=3
)
_reading = {
    "system": texts,
    "mode": st.sampled_from(["append", "prepend", "replace"]),
    "hide": st.none() | st.sampled_from(["", r"\pL+", "(?s)<a>(?P<b>.*)</a>", "\"'", "\n"]),
    "model": st.none() | texts,
    "template": st.sampled_from([None, "chat", "plain"]),
    "options": options,
    "adapter": st.none() | texts,
}
prompted = st.one_of(
    st.builds(Prompted, **_reading, exit_layer=st.none() | st.integers(0, 99)),
    st.builds(
        Prompted,
        **_reading,
        vectors=vectors,
        positions=st.sampled_from(["all", "answer"]),
    ),
    st.builds(Prompted, texts, st.just("whole"), model=_reading["model"]),
)
_counting = {"order": st.integers(1, 9), "online": st.booleans()}
ngrams = st.one_of(
    st.builds(NGram, path=texts, **_counting),
    st.builds(NGram, path=st.none(), texts=st.lists(texts, min_size=1, max_size=3), **_counting),
    st.builds(NGram, path=st.none(), order=_counting["order"], online=st.just(True)),
)
plain_leaves = names | prompted | ngrams | st.builds(Uniform)
judges = names | st.builds(Classifier, texts, texts | st.integers(-5, 5), read_prompt=st.booleans())


@dataclass
class Parts:
    """Draws the parts of one formula: at most `left` compound parts, and no deep nesting."""

    draw: st.DrawFn
    leaves: Some
    left: int
    depth: int = 0

    def formula(self) -> Formula:
        return self.compound(COMPOUND) if self._deeper() else self.draw(self.leaves)

    def several(self) -> list[Formula]:
        return [self.formula() for _ in range(self.draw(few))]

    def varying(self) -> Varying:
        made: Varying = self.compound(COMBINED if self._deeper() else MEASURED)
        return made

    def factor(self) -> Factor:
        return self.varying() if self.draw(either) else self.draw(factors)

    def condition(self) -> Comparison:
        return Comparison(self.varying(), self.draw(relations), self.factor())

    def compound(self, kinds: st.SearchStrategy[Callable[[Parts], Any]]) -> Any:
        self.left -= 1
        self.depth += 1
        made = self.draw(kinds)(self)
        self.depth -= 1
        return made

    def _deeper(self) -> bool:
        return self.left > 0 and self.depth < 5 and self.draw(either)


either, few, relations = st.booleans(), st.integers(2, 3), st.sampled_from(RELATIONS)
sizes, counts, orders = st.floats(0.1, 99), st.integers(1, 99), st.just(0.5) | st.floats(0.01, 0.99)
divisors, shapes = factors.filter(bool), st.sampled_from([entropy, max_prob, margin, indicator])

MEASURES: Sequence[Callable[[Parts], Varying]] = (
    lambda one: jsd(one.formula(), one.formula()),
    lambda one: renyi(one.formula(), one.formula(), one.draw(orders)),
    lambda one: one.draw(shapes)(one.formula()),
    lambda one: class_prob(one.draw(judges)),
    lambda one: first(one.draw(counts)),
    lambda one: decay(one.draw(sizes)),
    lambda one: position(),
    lambda one: reasoning(),
    lambda one: calling(),
    lambda one: balance(one.formula(), one.formula()),
)
ARITHMETIC: Sequence[Callable[[Parts], Varying]] = (
    lambda one: one.varying() + one.factor(),
    lambda one: one.factor() - one.varying(),
    lambda one: one.varying() * one.factor(),
    lambda one: one.factor() / one.varying(),
    lambda one: one.varying() / one.draw(divisors),
    lambda one: -one.varying(),
    lambda one: sigmoid(one.varying()),
    lambda one: maximum(one.factor(), one.factor(), one.varying()),
    lambda one: minimum(one.varying(), one.factor()),
)
COMPOUNDS: Sequence[Callable[[Parts], Formula]] = (
    lambda one: one.formula() + one.formula(),
    lambda one: one.formula() - one.formula(),
    lambda one: one.factor() * one.formula(),
    lambda one: one.formula() / one.draw(divisors),
    lambda one: one.formula() / one.varying(),
    lambda one: -one.formula(),
    lambda one: union(*one.several()),
    lambda one: intersection(*one.several()),
    lambda one: supersede(one.formula(), one.formula()),
    lambda one: unscaled(one.formula()),
    lambda one: one.formula().top_k(one.draw(counts)),
    lambda one: one.formula().top_p(one.draw(fractions)),
    lambda one: one.formula().min_p(one.draw(fractions)),
    lambda one: one.formula().temperature(one.draw(sizes)),
    lambda one: relu(one.formula()),
    lambda one: mixture(one.factor(), one.formula(), one.factor(), one.formula()),
    lambda one: where(one.condition(), one.formula(), one.formula()),
    lambda one: where(one.varying(), one.formula(), one.formula()),
    lambda one: self_debias(*one.several(), decay=one.draw(sizes), floor=one.draw(fractions)),
    lambda one: posterior(*one.several()),
    lambda one: self_debias(*one.several()),
    lambda one: agreed(*one.several(), count=one.draw(counts)),
)
MEASURED, COMBINED = st.sampled_from(MEASURES), st.sampled_from(ARITHMETIC)
COMPOUND = st.sampled_from(COMPOUNDS)


def walk(formula: Node) -> Iterator[Formula]:
    """Yield every formula in the tree, also in factors, but not the guide of a classifier."""
    return (node for node in descend(formula) if isinstance(node, Formula))


@st.composite
def _formula(draw: st.DrawFn, leaves: Some, most: int) -> Formula:
    return Parts(draw, leaves, most).formula()


guides = _formula(plain_leaves, 2)
classifiers = st.builds(
    Classifier, model=texts, label=texts | st.integers(-5, 5), candidates=st.integers(1, 1000),
    guide=st.none() | guides, read_prompt=st.booleans(),
    coverage=st.none() | fractions, scale=st.sampled_from(SCALES),
)  # fmt: skip


@st.composite
def formulas(draw: st.DrawFn, most: int = 8) -> Formula:
    """Draw any formula that the operators can build, with at most `most` compound parts."""
    return Parts(draw, plain_leaves | classifiers, most).formula()


def logprobs(positions: int, vocab: int, holes: bool = False) -> st.SearchStrategy[Tensor]:
    """Draw log-distributions [positions, vocab]. With `holes`, some tokens are impossible."""

    def build(seed: int, sharpness: float, share: float) -> Tensor:
        source = torch.Generator().manual_seed(seed)
        raw = torch.randn(positions, vocab, generator=source) * sharpness
        if holes:
            forbidden = torch.rand(positions, vocab, generator=source) < share
            forbidden[:, 0] = False  # one token that every term allows
            raw = raw.masked_fill(forbidden, -torch.inf)
        return torch.log_softmax(raw, dim=-1)

    return st.builds(build, st.integers(0, 2**31), st.floats(0.1, 5.0), st.floats(0.0, 0.7))


JUDGE = Classifier("judge")


def speakers(count: int) -> tuple[Prompted, ...]:
    """Return `count` distinct terms, named `p0` and so on."""
    return tuple(Prompted(f"p{i}") for i in range(count))


def observed(terms: tuple[Prompted, ...], positions: int, seed: int) -> dict[Term, Tensor]:
    """Return what factors may observe of a text: its position, likelihoods, and a judgement."""
    source = torch.Generator().manual_seed(seed)
    place = torch.arange(positions)[:, None] + float(torch.randint(0, 5, (), generator=source))
    told: dict[Term, Tensor] = {
        likelihood_of(t): -2 * place * torch.rand(1, generator=source) for t in terms
    }
    judged = torch.rand(positions, 1, generator=source).clamp(min=1e-6).log()
    return {POSITION: place, judgement_of(JUDGE): judged, **told}


def spoken(
    terms: tuple[Prompted, ...], positions: int = 2, vocab: int = 9, holes: bool = False
) -> st.SearchStrategy[World]:
    """Draw a log-distribution for each term, and the values that factors observe."""

    def build(rows: tuple[Tensor, ...], seed: int) -> World:
        return {**dict(zip(terms, rows, strict=True)), **observed(terms, positions, seed)}

    drawn = st.tuples(*(logprobs(positions, vocab, holes) for _ in terms))
    return st.builds(build, drawn, st.integers(0, 2**31))


def shares(terms: tuple[Prompted, ...]) -> st.SearchStrategy[Varying]:
    """Draw factors from 0 to 1 in which rounding decides no comparison."""
    pair = st.tuples(st.sampled_from(terms), st.sampled_from(terms))
    looking = st.one_of(
        pair.map(lambda p: jsd(*p)),
        pair.map(lambda p: sigmoid(entropy(p[0]) - renyi(*p))),
        st.sampled_from(terms).map(max_prob),
        st.sampled_from(terms).map(margin),
        st.just(class_prob(JUDGE)),
        st.integers(1, 4).map(first),
        st.floats(0.5, 9).map(decay),
        pair.map(lambda p: balance(*p)),
    )
    both = st.tuples(looking, looking)
    return looking | both.map(lambda p: maximum(*p)) | both.map(lambda p: p[0] * (1 - p[1] / 3))


def weighty(terms: tuple[Prompted, ...]) -> Some:
    """Draw formulas over `terms` in which every part has weight above zero."""
    positive = st.floats(0.1, 3.0)
    gates, one = shares(terms), st.sampled_from(terms)
    two = st.tuples(one, one)

    def grow(parts: Some) -> Some:
        pair = st.tuples(parts, parts)
        later = st.one_of(
            st.tuples(gates, pair).map(lambda p: p[1][0] + p[0] * p[1][1]),
            st.tuples(gates, two).map(lambda p: (1 - p[0]) * p[1][0] + p[0] * p[1][1]),
            st.tuples(parts, two, positive).map(lambda p: p[0] - p[2] * relu(p[1][0] - p[1][1])),
            st.tuples(parts, two, positive).map(lambda p: p[0] + p[2] * posterior(*p[1])),
            st.tuples(gates, pair).map(lambda p: mixture(1.5 - p[0], p[1][0], -0.4, p[1][1])),
            st.tuples(gates, st.sampled_from([0.21, 0.37, 0.83]), pair).map(
                lambda p: where(p[0] > p[1], *p[2])
            ),
            pair.map(lambda p: self_debias(*p, decay=9)),
            st.tuples(parts, st.floats(0.3, 3)).map(lambda p: p[0].temperature(p[1])),
        )
        return later | st.one_of(
            pair.map(lambda p: p[0] + p[1]),
            pair.map(lambda p: union(*p)),
            pair.map(lambda p: intersection(*p)),
            pair.map(lambda p: supersede(*p)),
            st.tuples(positive, parts).map(lambda p: p[0] * p[1]),
            pair.map(lambda p: unscaled(p[0] - 0.5 * p[1])),
        )

    return st.recursive(one, grow, max_leaves=5)
