"""Compute the measures of inspected positions from the rows of terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marith.decoding.evaluate import evaluate
from marith.engine.prepare import Prepared
from marith.errors import RequestError
from marith.formula.meaning.binding import BARE, bind
from marith.formula.meaning.leaves import leaves
from marith.formula.tree.nodes import Formula, Name, added
from marith.formula.tree.terms import Classifier, NGram, Observation, Prompted, Term, Uniform
from marith.inspection.contributions import LogOdds, Summand, named, summands, without_own_part
from marith.inspection.inspected_position import (
    RANKED,
    Contribution,
    InspectedPart,
    InspectedPosition,
    InspectedTerm,
    LikelyToken,
    PushedToken,
    TermKind,
    TermView,
    VectorPush,
)
from marith.request.checks import whole
from marith.request.request import Request

# Most of the ranks that are asked for are at most this, so at first only this number of tokens is
# ordered.
NEAR = 64
Numbers: TypeAlias = "list[float | None]"
MOST_VALUES = 1_000_000  # positions × likeliest tokens × terms and parts
LISTED = 10  # the default number of likeliest tokens
_KINDS: dict[type[Term], TermKind] = {
    Prompted: "model",
    NGram: "n-gram",
    Uniform: "uniform",
    Classifier: "classifier",
}
# The columns of the tokens that are asked for. From TOP on, they are the likeliest tokens.
REFERENCE, TOKEN, TOP = 0, 1, 2


@dataclass(slots=True)
class TokenRanks:
    """The likeliest tokens of log-distributions [positions, vocab], and the ranks of given tokens.

    `best` and `best_logprobs` are [positions, count], best first. `ranks` is [positions, tokens]; a
    rank above `RANKED` is not exact.
    """

    best: Tensor
    best_logprobs: Tensor
    ranks: Tensor


def rank_tokens(logprobs: Tensor, tokens: Tensor, count: int) -> TokenRanks:
    """Return the `count` likeliest tokens of each row, and the ranks of `tokens`.

    `tokens` is [positions, tokens]. A rank is 1 + the number of likelier tokens. Most ranks are
    small, so only the first few tokens are ordered at first.
    """
    size = logprobs.shape[-1]
    near = logprobs.topk(min(max(NEAR, count), size), dim=-1)
    asked = logprobs.gather(-1, tokens)
    ranks = _ranks(near.values, asked)
    ordered = near.values.shape[-1]
    if ordered < min(size, RANKED):
        _rank_further(logprobs, asked, ranks, ordered)
    count = min(count, size)
    return TokenRanks(near.indices[:, :count], near.values[:, :count], ranks)


def _rank_further(logprobs: Tensor, asked: Tensor, ranks: Tensor, known: int) -> None:
    """Correct the ranks of tokens that are not among the `known` likeliest tokens of their row."""
    far = ranks > known
    columns = far.any(dim=0).nonzero()[:, 0].tolist()
    if len(columns) == 1:
        # The column is usually the text's token. Counting costs less than ordering.
        (column,) = columns
        rows = far[:, column].nonzero()[:, 0]
        likelier = logprobs[rows] > asked[rows, column, None]
        ranks[rows, column] = likelier.sum(dim=-1, dtype=torch.int32).to(ranks.dtype) + 1
    elif columns:
        rows = far.any(dim=-1).nonzero()[:, 0]
        values = logprobs[rows].topk(min(RANKED, logprobs.shape[-1]), dim=-1).values
        ranks[rows] = _ranks(values, asked[rows])


def _ranks(ordered: Tensor, asked: Tensor) -> Tensor:
    """Return 1 + the number of values in a descending row that are greater than each value."""
    return torch.searchsorted(-ordered, -asked.contiguous()) + 1


def entropies(logprobs: Tensor) -> Tensor:
    """Return Shannon's entropy of each row in nats, [positions]."""
    return -_expected(logprobs.exp(), logprobs)


def divergences_from(logprobs: Tensor, composed: Tensor) -> Tensor:
    """Return KL(P ‖ composed) of each row in nats, [positions].

    It is ∞ where `composed` forbids a token that P allows.
    """
    return _expected(logprobs.exp(), logprobs - composed).clamp(min=0.0)


def _expected(masses: Tensor, values: Tensor) -> Tensor:
    """Return Σ P·x of each row. A mass of 0 adds 0, whatever x is. Overwrites `masses`."""
    expected = masses.mul_(values).sum(dim=-1)
    # A product 0 · (−∞) is NaN, and so is a product with NaN at a mass of 0.
    if bool(expected.isnan().any()):
        expected = torch.where(masses.isnan(), 0.0, masses).sum(dim=-1)
    return expected


def finite(numbers: Sequence[float]) -> Numbers:
    """Return the numbers, with None for infinite numbers and NaN."""
    return [number if math.isfinite(number) else None for number in numbers]


def finite_rows(rows: Tensor) -> list[Numbers]:
    """Return the rows of a tensor [positions, count] as finite numbers or None."""
    return [finite(row) for row in rows.tolist()]


def without_vectors(terms: Iterable[Term]) -> dict[Term, Term]:
    """Return each term that has vectors, with the same term without them."""
    return {
        term: replace(term, vectors=(), positions="all")
        for term in terms
        if isinstance(term, Prompted) and term.vectors
    }


def compared(request: Request) -> Formula:
    """Return a formula of the terms with which an inspection compares a request's formula.

    They are the bare model, and each term that has vectors, without them. The formula is never
    composed: an engine prepares its terms.
    """
    formula = bind(request.formulas[0], request.meanings)
    return added(Name(BARE), *without_vectors(leaves(formula)).values())


@dataclass(frozen=True, slots=True)
class InspectedFormula:
    """A request's formula, with its terms and parts, as an inspection needs them.

    `bare` is the meaning of `M`. `terms` are the terms of the formula except `observations`.
    `plain` maps each of `terms` that has vectors to the same term without them. `summands` add up
    to its score. `left_out` are the terms that are not summands, so they are measured by leaving
    them out.
    """

    text: str
    formula: Formula
    bare: Formula
    terms: tuple[Term, ...]
    plain: Mapping[Term, Term]
    observations: tuple[Term, ...]
    summands: tuple[Summand, ...]
    left_out: tuple[Term, ...]
    names: dict[Formula, str]
    all_names: dict[Formula, tuple[str, ...]]
    top: int

    @classmethod
    def of(
        cls, request: Request, prepared: Prepared, top: int, leave_one_out: bool
    ) -> InspectedFormula:
        """Return the formula of a request that is prepared together with `compared(request)`."""
        meanings = request.meanings
        all_names: dict[Formula, tuple[str, ...]] = {}
        for name, meaning in meanings.items():
            all_names[meaning] = (*all_names.get(meaning, ()), name)
        plan, bare = prepared.plan, meanings[BARE]
        terms = plan.leaves(plan.formula)
        # Putting the bare model in place of the bare model would change nothing.
        left_out = [t for t in without_own_part(plan.formula) if t != bare] if leave_one_out else []
        return cls(
            str(request.formula),
            plan.formula,
            bare,
            tuple(term for term in terms if not isinstance(term, Observation)),
            without_vectors(terms),
            tuple(term for term in terms if isinstance(term, Observation)),
            tuple(summands(plan.formula)),
            tuple(left_out),
            {meaning: names[0] for meaning, names in all_names.items()},
            all_names,
            top,
        )

    def described_terms(self) -> tuple[InspectedTerm, ...]:
        """Return the terms as plain data."""
        return tuple(
            InspectedTerm(str(term), self.all_names.get(term, ()), _KINDS.get(type(term), "other"))
            for term in self.terms
        )

    def described_parts(self) -> tuple[InspectedPart, ...]:
        """Return the parts as plain data: summands, then the terms that are left out."""
        numbers = {term: number for number, term in enumerate(self.terms)}
        exact = (
            InspectedPart(str(part.shown(self.names)), "exact", numbers.get(part.of))  # type: ignore[call-overload]  # a formula that may be a term
            for part in self.summands
        )
        left_out = (
            InspectedPart(str(named(term, self.names)), "leave_one_out", numbers[term])
            for term in self.left_out
        )
        return (*exact, *left_out)

    def require_bounded(self, positions: int) -> None:
        """Raise RequestError for more values than an inspection may have."""
        others = len(self.terms) + len(self.plain) + len(self.summands) + len(self.left_out)
        values = positions * self.top * others
        if values > MOST_VALUES:
            raise RequestError(
                f"an inspection has at most {MOST_VALUES:,} values, and {positions:,} positions × "
                f"{self.top} likeliest tokens × {others} terms and parts are {values:,}: write a "
                "smaller top, or inspect a shorter text"
            )


def top_of(value: object) -> int:
    """Return the number of likeliest tokens to list: 10 for True. Raises RequestError."""
    return LISTED if value is True else whole("top", value, 1)


class PositionMeasures:
    """Measures some positions, from the rows of all terms and the composed distribution.

    `rows` is [positions, vocab] for each term and [positions, 1] for each observation. `composed`
    is [positions, vocab], and `tokens` [positions] are the tokens of the text. `spell` returns a
    token's text.
    """

    def __init__(
        self,
        formula: InspectedFormula,
        rows: Mapping[Term, Tensor],
        composed: Tensor,
        tokens: Tensor,
        spell: Callable[[int], str],
    ) -> None:
        self._formula, self._rows, self._composed = formula, rows, composed
        self._tokens, self._spell = tokens[:, None], spell
        # The reference may be the second likeliest token, so at least two tokens are needed.
        self._of_composed = rank_tokens(composed, self._tokens, max(formula.top, 2))
        self._top = self._of_composed.best[:, : formula.top]
        bare = formula.bare
        self._bare = rows[bare] if isinstance(bare, Term) else evaluate(bare, rows)
        self._rankings = {bare: self._ranking(self._bare)}
        self._asked = torch.cat([self._reference(), self._tokens, self._top], dim=1)
        self._odds = LogOdds(formula.formula, rows, self._asked)

    def positions(self, place: int) -> list[InspectedPosition]:
        """Return an inspected position for each row. `place` tokens precede the first row."""
        composed = finite_rows(self._composed.gather(1, self._asked))
        bare_logprobs = finite_rows(self._bare.gather(1, self._asked))
        of_bare = self._rankings[self._formula.bare]
        tokens, ranks = self._tokens[:, 0].tolist(), self._of_composed.ranks[:, 0]
        flipped = (ranks == 1) & (of_bare.ranks[:, 0] > 1)
        contributions, log_odds = self._contributions()
        columns: dict[str, Sequence[Any]] = {
            "place": range(place, place + len(tokens)),
            "token": tokens,
            "text": [*map(self._spell, tokens)],
            "logprob": [row[TOKEN] for row in composed],
            "rank": _known_ranks(ranks),
            "entropy": finite(entropies(self._composed).tolist()),
            "weight": finite(self._odds.weight[:, TOKEN].tolist()),
            "top": self._likely(self._of_composed, self._formula.top),
            "bare_logprob": [row[TOKEN] for row in bare_logprobs],
            "bare_rank": _known_ranks(of_bare.ranks[:, 0]),
            "bare_likeliest": [tops[0] for tops in self._likely(of_bare, 1)],
            "bare_of_top": [tuple(row[TOP:]) for row in bare_logprobs],
            "flipped": flipped.tolist(),
            "reference": [
                LikelyToken(token, self._spell(token), row[REFERENCE])
                for token, row in zip(self._asked[:, REFERENCE].tolist(), composed, strict=True)
            ],
            "log_odds": log_odds,
            "terms": _by_position([self._views(term) for term in self._formula.terms], tokens),
            "contributions": _by_position(contributions, tokens),
            "observations": _by_position(self._observed(), tokens),
            # This is set later, when all tokens are known.
            "completed": [None] * len(tokens),
        }
        rows = zip(*columns.values(), strict=True)
        return [InspectedPosition(**dict(zip(columns, row, strict=True))) for row in rows]

    def _reference(self) -> Tensor:
        """Return the token to compare with, [positions, 1]; see `InspectedPosition`."""
        likeliest = self._rankings[self._formula.bare].best[:, :1]
        first, second = self._of_composed.best[:, :1], self._of_composed.best[:, 1:2]
        other = torch.where(first == self._tokens, second if second.numel() else first, first)
        follows = self._composed.gather(1, likeliest) > -math.inf
        return torch.where(follows & (likeliest != self._tokens), likeliest, other)

    def _ranking(self, logprobs: Tensor) -> TokenRanks:
        tokens = torch.cat([self._tokens, self._top], dim=1)
        return rank_tokens(logprobs, tokens, self._formula.top)

    def _views(self, term: Term) -> list[TermView]:
        """Return a term's view of each position."""
        rows = self._rows[term]
        values = finite_rows(rows.gather(1, self._asked))
        weights = self._weights(term)
        if isinstance(term, Classifier):
            unranked = (None,) * self._top.shape[1]
            return [
                TermView(row[TOKEN], None, weight, None, None, tuple(row[TOP:]), unranked, (), None)
                for row, weight in zip(values, weights, strict=True)
            ]
        if term not in self._rankings:
            self._rankings[term] = self._ranking(rows)
        ordered = self._rankings[term]
        ranks = [_known(row) for row in ordered.ranks.tolist()]
        spread = finite(entropies(rows).tolist())
        divergences = finite(divergences_from(rows, self._composed).tolist())
        tops, pushes = self._likely(ordered, self._formula.top), self._vector_pushes(term)
        return [
            TermView(row[TOKEN], of_row[0], weight, nats, kl, tuple(row[TOP:]), of_row[1:], *rest)
            for row, of_row, weight, nats, kl, *rest in zip(
                values, ranks, weights, spread, divergences, tops, pushes, strict=True
            )
        ]

    def _vector_pushes(self, term: Term) -> Sequence[VectorPush | None]:
        """Return what a term's vectors push at each position; None for a term without vectors."""
        if term not in self._formula.plain:
            return [None] * len(self._tokens)
        logprobs, plain = self._rows[term], self._rows[self._formula.plain[term]]

        def pushes(tokens: Tensor) -> list[Numbers]:
            return finite_rows(logprobs.gather(1, tokens).double() - plain.gather(1, tokens))

        # The largest pushes are those of tokens that are too unlikely to be drawn, so tokens are
        # listed by the change of their probabilities.
        changes = logprobs.exp() - plain.exp()

        def changed(sign: int) -> list[tuple[PushedToken, ...]]:
            most = (sign * changes).topk(min(self._formula.top, changes.shape[-1]), dim=-1)
            rows = zip(
                most.indices.tolist(), pushes(most.indices), most.values.tolist(), strict=True
            )
            return [
                tuple(
                    PushedToken(token, self._spell(token), push)
                    for token, push, change in zip(*row, strict=True)
                    if change > 0
                )
                for row in rows
            ]

        return [
            VectorPush(push, raised, lowered)
            for [push], raised, lowered in zip(
                pushes(self._tokens), changed(1), changed(-1), strict=True
            )
        ]

    def _weights(self, term: Term) -> Sequence[float | None]:
        """Return the sum of the factors of a term's own log-probabilities, at each position."""
        factors = [self._odds.factor(s) for s in self._formula.summands if s.of == term]
        if not factors:
            return [None] * len(self._tokens)
        return finite(torch.stack(factors).sum(dim=0)[:, TOKEN].tolist())

    def _contributions(self) -> tuple[list[list[Contribution]], list[float | None]]:
        """Return the contributions of each part, and the log-odds of the tokens."""
        follows = self._composed.gather(1, self._asked) > -math.inf
        # Log-odds with a token that cannot follow are infinite, and are reported as None.
        follows = follows & follows[:, :1]
        exact = [self._odds.of(summand) for summand in self._formula.summands]
        whole = torch.stack(exact).sum(dim=0).masked_fill(~follows, math.nan)
        parts = [part.masked_fill(~follows, math.nan) for part in exact]
        for term in self._formula.left_out:
            parts.append(whole - self._odds.leaving_out(term, self._bare.double()))
        return [_values(finite_rows(part)) for part in parts], finite(whole[:, TOKEN].tolist())

    def _observed(self) -> list[list[float | None]]:
        return [finite(self._rows[term][:, 0].tolist()) for term in self._formula.observations]

    def _likely(self, ordered: TokenRanks, count: int) -> list[tuple[LikelyToken, ...]]:
        """Return the likeliest tokens at each position."""
        tokens, logprobs = ordered.best[:, :count].tolist(), ordered.best_logprobs[:, :count]
        return [
            tuple(LikelyToken(t, self._spell(t), p) for t, p in zip(*pair, strict=True))
            for pair in zip(tokens, finite_rows(logprobs), strict=True)
        ]


def _values(rows: list[list[float | None]]) -> list[Contribution]:
    return [Contribution(row[TOKEN], tuple(row[TOP:])) for row in rows]


def _known_ranks(ranks: Tensor) -> Sequence[int | None]:
    return _known(ranks.tolist())


def _known(ranks: Sequence[int]) -> tuple[int | None, ...]:
    """Return ranks as they are reported: None for a rank that is not exact."""
    return tuple(rank if rank <= RANKED else None for rank in ranks)


def _by_position(columns: Sequence[Sequence[Any]], tokens: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the values of all columns at each position."""
    return [*zip(*columns, strict=True)] if columns else [()] * len(tokens)
