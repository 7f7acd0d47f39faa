"""Rows of some positions → what an inspection has of each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from marith.decoding.composition.evaluate import evaluate
from marith.formula.tree.terms import Classifier, Term
from marith.inspection.contributions import LogOdds
from marith.inspection.inspected_formula import InspectedFormula
from marith.inspection.measures import (
    Ranking,
    divergences_from,
    entropies,
    finite,
    finite_rows,
    ranking,
)
from marith.request.inspected.inspected_position import (
    RANKED,
    Contribution,
    InspectedPosition,
    LikelyToken,
    TermView,
)

REFERENCE, TOKEN, TOP = 0, 1, 2  # columns of the tokens that are asked for: TOP and what follows


class PositionMeasures:
    """The measures of some positions, from the rows of all terms and the composed distribution.

    `rows` holds [positions, vocab] for each term and [positions, 1] for each observation;
    `composed` is [positions, vocab], and `tokens` [positions] are those of the text. `spell` gives
    a token's text.
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
        self._of_composed = ranking(composed, self._tokens, max(formula.top, 2))
        self._top = self._of_composed.best[:, : formula.top]
        bare = formula.bare
        self._bare = rows[bare] if isinstance(bare, Term) else evaluate(bare, rows)
        self._rankings = {bare: self._ranking(self._bare)}
        self._asked = torch.cat([self._reference(), self._tokens, self._top], dim=1)
        self._odds = LogOdds(formula.formula, rows, self._asked)

    def positions(self, place: int) -> list[InspectedPosition]:
        """One for each row, of which the first follows so many tokens."""
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
            "rank": _ranks(ranks),
            "entropy": finite(entropies(self._composed).tolist()),
            "weight": finite(self._odds.weight[:, TOKEN].tolist()),
            "top": self._likely(self._of_composed, self._formula.top),
            "bare_logprob": [row[TOKEN] for row in bare_logprobs],
            "bare_rank": _ranks(of_bare.ranks[:, 0]),
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
            "completed": [None] * len(tokens),  # known once there are all tokens
        }
        rows = zip(*columns.values(), strict=True)
        return [InspectedPosition(**dict(zip(columns, row, strict=True))) for row in rows]

    def _reference(self) -> Tensor:
        """The token to compare with, [positions, 1]; see `InspectedPosition`."""
        likeliest = self._rankings[self._formula.bare].best[:, :1]
        first, second = self._of_composed.best[:, :1], self._of_composed.best[:, 1:2]
        other = torch.where(first == self._tokens, second if second.numel() else first, first)
        follows = self._composed.gather(1, likeliest) > -math.inf
        return torch.where(follows & (likeliest != self._tokens), likeliest, other)

    def _ranking(self, logprobs: Tensor) -> Ranking:
        tokens = torch.cat([self._tokens, self._top], dim=1)
        return ranking(logprobs, tokens, self._formula.top)

    def _views(self, term: Term) -> list[TermView]:
        """The numbers of a term, by position."""
        rows = self._rows[term]
        values = finite_rows(rows.gather(1, self._asked))
        weights = self._weights(term)
        if isinstance(term, Classifier):
            unranked = (None,) * self._top.shape[1]
            return [
                TermView(row[TOKEN], None, weight, None, None, tuple(row[TOP:]), unranked, ())
                for row, weight in zip(values, weights, strict=True)
            ]
        if term not in self._rankings:
            self._rankings[term] = self._ranking(rows)
        ordered = self._rankings[term]
        ranks = [_known(row) for row in ordered.ranks.tolist()]
        spread = finite(entropies(rows).tolist())
        divergences = finite(divergences_from(rows, self._composed).tolist())
        tops = self._likely(ordered, self._formula.top)
        return [
            TermView(row[TOKEN], of_row[0], weight, nats, kl, tuple(row[TOP:]), of_row[1:], top)
            for row, of_row, weight, nats, kl, top in zip(
                values, ranks, weights, spread, divergences, tops, strict=True
            )
        ]

    def _weights(self, term: Term) -> Sequence[float | None]:
        """The number by which a term's own log-probabilities are multiplied, by position."""
        factors = [self._odds.factor(s) for s in self._formula.summands if s.node == term]
        if not factors:
            return [None] * len(self._tokens)
        return finite(torch.stack(factors).sum(dim=0)[:, TOKEN].tolist())

    def _contributions(self) -> tuple[list[list[Contribution]], list[float | None]]:
        """What each part adds, by position, and what the exact ones add up to for the token."""
        follows = self._composed.gather(1, self._asked) > -math.inf
        follows = follows & follows[:, :1]
        exact = [self._odds.of(summand) for summand in self._formula.summands]
        whole = torch.stack(exact).sum(dim=0).masked_fill(~follows, math.nan)
        parts = [part.masked_fill(~follows, math.nan) for part in exact]
        for term in self._formula.left_out:
            parts.append(whole - self._odds.leaving_out(term, self._bare.double()))
        return [_values(finite_rows(part)) for part in parts], finite(whole[:, TOKEN].tolist())

    def _observed(self) -> list[list[float | None]]:
        return [finite(self._rows[term][:, 0].tolist()) for term in self._formula.observations]

    def _likely(self, ordered: Ranking, count: int) -> list[tuple[LikelyToken, ...]]:
        """The likeliest tokens at each position."""
        tokens, logprobs = ordered.best[:, :count].tolist(), ordered.best_logprobs[:, :count]
        return [
            tuple(LikelyToken(t, self._spell(t), p) for t, p in zip(*pair, strict=True))
            for pair in zip(tokens, finite_rows(logprobs), strict=True)
        ]


def _values(rows: list[list[float | None]]) -> list[Contribution]:
    return [Contribution(row[TOKEN], tuple(row[TOP:])) for row in rows]


def _ranks(ranks: Tensor) -> Sequence[int | None]:
    return _known(ranks.tolist())


def _known(ranks: Sequence[int]) -> tuple[int | None, ...]:
    """Ranks as they are reported: None for those that are not exact."""
    return tuple(rank if rank <= RANKED else None for rank in ranks)


def _by_position(columns: Sequence[Sequence[Any]], tokens: Sequence[int]) -> list[tuple[Any, ...]]:
    """For each position the value of every column."""
    return [*zip(*columns, strict=True)] if columns else [()] * len(tokens)
