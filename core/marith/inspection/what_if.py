"""Redraw a text with another number in its formula, without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from marith.answers.answer_grammar import AnswerGrammars
from marith.answers.detectors import ends_of
from marith.decoding import cuts
from marith.decoding.blocks import Block
from marith.decoding.evaluate import evaluate
from marith.decoding.lift_cuts import lift_cuts
from marith.decoding.matcher import Matcher
from marith.decoding.random_numbers import DRAW, uniform
from marith.decoding.row_constraints import Constraint, CustomConstraint, LeastLength, Penalties
from marith.decoding.sampling import drawn, warp
from marith.engine.jobs.queries import TextQuery
from marith.engine.prepare import Prepared, aligned_plan, plan_of
from marith.errors import FormulaError, MarithError, RequestError, shown
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.formula.tree.printing import unquoted
from marith.formula.tree.terms import Classifier, Term
from marith.inspection.formula_numbers import FormulaNumber, NumberedFormula
from marith.request.completion import Completion
from marith.request.plan import Plan
from marith.request.request import Request
from marith.scoring.passes.questions import Answer
from marith.speculation.execution_plan import ExecutionPlan

Kept = TypeVar("Kept")
NO_TOKEN = -1  # in place of a token, if no token may follow
MOST_VALUES = 1000  # values of a number in one call
AT_ONCE = 1 << 20  # log-probabilities of a term that are composed together


class KeepingRows(TextQuery[Kept]):
    """Keeps the rows of each term [positions, vocab] on the CPU, and passes them to `made`.

    The first row predicts the token at `start` of the text.
    """

    def __init__(
        self,
        prepared: Prepared,
        continuation: Sequence[int],
        made: Callable[[Mapping[Term, Tensor]], Kept],
        start: int = 0,
    ) -> None:
        super().__init__(prepared, continuation, start)
        self._made = made
        self._answers: Mapping[Term, Answer] = {}
        self._kept: dict[Term, Tensor] = {}
        self._count = len(continuation) - start
        self._taken = 0

    def receive(self, answers: Mapping[Term, Answer]) -> Block:
        """Keep the rows of every term until they are copied."""
        self._answers = dict(answers)
        return super().receive(answers)

    def take(self, logprobs: Tensor, tokens: Tensor) -> None:
        """Copy the rows of these positions."""
        end = self._taken + len(tokens)
        for term, scored in self._answers.items():
            rows = scored.logprobs
            # The tensor is allocated whole, because joining parts would need twice the memory.
            if term not in self._kept:
                self._kept[term] = torch.empty(self._count, rows.shape[-1], dtype=rows.dtype)
            self._kept[term][self._taken : end] = rows
        self._taken = end
        self._answers = {}

    def result(self) -> Kept:
        """Return what `made` returns for the rows of each term."""
        return self._made(self._kept)


class Redrawing:
    """The constraints, cuts and random numbers of a request, at the places of its text.

    `tokens` are the tokens of the completion. If `ended`, an end token was drawn after them, and
    its place is one more position. Raises RequestError for a request whose draws cannot be
    repeated.
    """

    def __init__(
        self,
        request: Request,
        prepared: Prepared,
        completion: Completion,
        answers: AnswerGrammars,
    ) -> None:
        _require_repeatable(request)
        self.tokens = tuple(completion.tokens)
        self._ends = ends_of(request, answers.vocabulary)
        self._sampling = request.sampling
        self._text = [*prepared.prefix, *self.tokens]
        self._first = len(prepared.prefix)
        # A stop string that is not in the text is the name of the special token that ended the
        # text.
        found = completion.stop_string
        in_text = found is not None and found in answers.vocabulary.decode(self._text)
        self.ended = completion.finish_reason != "length" and not in_text
        self._grammar = answers.compiled(request, prepared.opened)
        self._constraints: list[Constraint] = [*map(CustomConstraint, request.constraints)]
        if request.stop.min_tokens:
            least = self._first + request.stop.min_tokens
            self._constraints.append(LeastLength(self._ends, least))
        if request.sampling.penalises:
            self._constraints.append(Penalties(request.sampling, frozenset(prepared.prompt)))

    @property
    def continuation(self) -> list[int]:
        """The tokens to read: the prefix, the text, and an end token if one was drawn."""
        # The last token of a continuation is not read, so any end token will do.
        return [*self._text, *sorted(self._ends)[: self.ended]]

    @property
    def start(self) -> int:
        """The number of tokens of the prefix in the continuation."""
        return self._first

    def drawn(self, formula: Formula, rows: Mapping[Term, Tensor], start: int) -> list[int]:
        """Draw a token of a formula at each position of the terms' `rows`, from `start` on."""
        composed = evaluate(formula, rows)
        places = [*range(self._first + start, self._first + start + len(composed))]
        stuck = torch.zeros(len(composed), dtype=torch.bool)
        if self._grammar is not None:
            allowed = Matcher(self._grammar).allowed(self._text, places).to(composed.device)

            def rows_at(positions: list[int]) -> Mapping[Term, Tensor]:
                return {term: of_term[positions] for term, of_term in rows.items()}

            composed, _, none_left = lift_cuts(formula, composed, allowed, rows_at)
            # A row without an allowed token keeps every token, and `NO_TOKEN` replaces its token
            # below.
            stuck[none_left] = True
            allowed[none_left] = True
            composed = cuts.keep(composed, allowed)
        for constraint in self._constraints:
            composed = constraint.apply(composed, self._text, places)
        tokens = self._tokens(composed, places).masked_fill(stuck.to(composed.device), NO_TOKEN)
        return [int(token) for token in tokens.tolist()]

    def first_flip(self, tokens: Sequence[int]) -> int | None:
        """Return the first position whose token differs from the text's token, or None.

        At the end of the text, all end tokens count as equal.
        """
        for place, token in enumerate(tokens):
            same = token in self._ends if place == len(self.tokens) else token == self.tokens[place]
            if not same:
                return place
        return None

    def _tokens(self, rows: Tensor, places: Sequence[int]) -> Tensor:
        sampling = self._sampling
        if sampling.temperature == 0.0:
            return rows.topk(1, dim=-1).indices[:, 0]
        assert sampling.seed is not None, "refused above"
        # A text without rewinds was drawn with use 0 at each place.
        numbers = uniform([sampling.seed] * len(places), places, [0] * len(places))[:, DRAW]
        masses = warp(rows, sampling.warping).double().exp()
        return drawn(masses, torch.from_numpy(numbers.copy()))


def _require_repeatable(request: Request) -> None:
    """Raise RequestError for a request whose draws do not depend on seed and place alone."""
    problem = ""
    if request.ban is not None:
        problem = "with a ban, tokens are rolled back and others are drawn in their place"
    elif request.stop.max_reasoning_tokens is not None:
        problem = "the mark that ends reasoning is written, and not drawn; leave "
        problem += "max_reasoning_tokens out"
    elif request.unsteered:
        problem = "the bare model, and not the formula, gives the tokens that it does not steer"
    elif request.sampling.temperature > 0 and request.sampling.seed is None:
        problem = "the request has no seed; write a seed, or temperature=0"
    elif request.sampling.temperature > 0 and isinstance(request.speculation, Plan):
        problem = "under a plan, the draws depend on the drafts; write speculation='auto' or None"
    if problem:
        raise RequestError(f"the draws of this text cannot be repeated: {problem}")


@dataclass(frozen=True, slots=True)
class Redrawn:
    """The tokens of a text for some values of one number of its formula, as plain data.

    `tokens` is [values, positions]: the token that would be drawn at each position after the
    original text, or -1 if no token may follow. For each value, `first_flip` is the first position
    whose token differs from the text, and `flipped_to` the text of the new token. `refused` has the
    reason if the formula cannot have a value. Such a value has no tokens. If `first_flip` and
    `refused` are None, the text stays the same.
    """

    number: int
    values: tuple[float, ...]
    tokens: tuple[tuple[int, ...], ...]
    first_flip: tuple[int | None, ...]
    flipped_to: tuple[str | None, ...]
    refused: tuple[str | None, ...]

    def without_texts(self) -> Redrawn:
        """Return the result with "…" in place of the texts that reasons quote."""
        hidden = (None if reason is None else unquoted(reason) for reason in self.refused)
        return replace(self, refused=tuple(hidden))


class WhatIf:
    """The log-probabilities of every term for a finished text, to try other numbers.

    Safe in any thread.
    """

    def __init__(
        self,
        request: Request,
        prepared: Prepared,
        rows: Mapping[Term, Tensor],
        redrawing: Redrawing,
        answers: AnswerGrammars,
    ) -> None:
        self._request, self._rows, self._redrawing = request, rows, redrawing
        self._numbered = NumberedFormula.of(request.formula)
        self._names = request.meanings
        self._scorers = prepared.lanes.scorers
        self._guides = _guides(prepared.plan)
        self._spell = answers.vocabulary.spell

    @property
    def text(self) -> str:
        """The formula's text, on one line."""
        return self._numbered.text

    @property
    def numbers(self) -> tuple[FormulaNumber, ...]:
        """The numbers of the formula in order, except numbers within terms."""
        return self._numbered.numbers

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the completion."""
        return self._redrawing.tokens

    @property
    def ended(self) -> bool:
        """True if an end token was drawn after `tokens`. It is one more position."""
        return self._redrawing.ended

    def changed(self, number: int, value: float) -> str:
        """Return the formula's text with another value for the number at this index."""
        return self._numbered.changed(number, value)

    def at(self, number: int, values: Sequence[float]) -> Redrawn:
        """Return the tokens that would be drawn for each of some values of one number.

        `number` is the index of the number in `numbers`. Composition, constraints and random
        numbers are as in the request. Raises RequestError for an invalid index, and for more than
        1,000 values.
        """
        if not isinstance(values, Sequence):
            raise RequestError(f"values is a list of numbers, such as [0.5], not {shown(values)}")
        if len(values) > MOST_VALUES:
            raise RequestError(f"at most {MOST_VALUES:,} values at once, not {len(values):,}")
        self._numbered.require(number)
        drawn = [self._at(number, value) for value in values]
        tokens = [row if isinstance(row, tuple) else () for row in drawn]
        flips = [self._redrawing.first_flip(row) for row in tokens]
        return Redrawn(
            number,
            tuple(map(float, values)),
            tuple(tokens),
            tuple(flips),
            tuple(self._text_at(row, flip) for row, flip in zip(tokens, flips, strict=True)),
            tuple(None if isinstance(row, tuple) else row for row in drawn),
        )

    def __repr__(self) -> str:
        count, numbers = len(self.tokens), ", ".join(f"{one.value:g}" for one in self.numbers)
        tokens = "1 token" if count == 1 else f"{count} tokens"
        return f"<WhatIf of {tokens} by {self.text!r}: numbers {numbers or 'none'}>"

    def _text_at(self, tokens: Sequence[int], place: int | None) -> str | None:
        if place is None or tokens[place] == NO_TOKEN:
            return None
        return self._spell([tokens[place]])

    def _at(self, number: int, value: float) -> tuple[int, ...] | str:
        """Return the tokens for one value, or the reason why the formula cannot have it."""
        try:
            plan = plan_of(parse(self._numbered.changed(number, value)), self._names)
            self._require_rows(plan)
            plan = aligned_plan(plan, self._scorers)
            self._require_guides(plan)
            return tuple(self._drawn(plan.whole))
        except MarithError as error:
            return error.problem if isinstance(error, FormulaError) else str(error)

    def _require_rows(self, plan: ExecutionPlan) -> None:
        """Raise RequestError for a formula that needs rows that no model has computed."""
        if missing := next((term for term in plan.terms if term not in self._rows), None):
            raise RequestError(f"this value changes a term to {missing}: generate the text again")

    def _require_guides(self, plan: ExecutionPlan) -> None:
        """Raise RequestError for a formula whose classifiers judge other tokens."""
        for classifier, guide in _guides(plan).items():
            if self._guides[classifier] != guide:
                raise RequestError(
                    f"this value changes which tokens {classifier} judges: generate the text again"
                )

    def _drawn(self, formula: Formula) -> list[int]:
        """Return the token at each position. The positions are composed part by part."""
        first = next(iter(self._rows.values()))
        width = max(row.shape[-1] for row in self._rows.values())
        at_once, tokens = max(1, AT_ONCE // width), list[int]()
        for start in range(0, len(first), at_once):
            part = slice(start, start + at_once)
            rows = {term: row[part] for term, row in self._rows.items()}
            tokens += self._redrawing.drawn(formula, rows, start)
        return tokens


def require_bytes(prepared: Prepared, positions: int, limit: int) -> None:
    """Raise RequestError if the log-probabilities of a text take more than `limit` bytes."""
    terms, width = len(prepared.plan.terms), prepared.vocab_size
    needed = positions * terms * width * torch.float32.itemsize
    if needed > limit:
        raise RequestError(
            f"the log-probabilities of {positions:,} positions × {terms} terms × {width:,} tokens "
            f"take {needed / 2**20:,.0f} MiB, and at most {limit / 2**20:,.0f} MiB are kept: "
            "generate a shorter text, or allow more by most_bytes"
        )


def _guides(plan: ExecutionPlan) -> dict[Classifier, Formula]:
    return {classifier: plan.guide_of(classifier) for classifier in plan.classifiers}
