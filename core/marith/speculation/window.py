"""The draft window: the tokens that not every stage has verified, and the rows to verify them.

This is algorithm 2 of the paper. The stages verify each position one after another, each stage
under its own formula. The last of these formulas is the whole formula, so the final tokens are
distributed as the whole formula (lemma 1).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from marith.decoding.blocks import Block
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import NGram, Term
from marith.speculation.execution_plan import ExecutionPlan
from marith.speculation.stages import Stage, VerificationOrder, drafting
from marith.speculation.verify import Verdict
from marith.tensor_rows import Row, compacted

Window: TypeAlias = "PlainWindow | DraftWindow"
MODEL = "model"  # the source of a token that was drawn from a partial formula


class PlainWindow:
    """A text for which every term is evaluated at every position.

    It has the methods of `DraftWindow`, without drafts, stages or stored rows. For one thread.
    The text begins with `prefix`.
    """

    drafted = accepted = 0
    verified: Mapping[Formula, Verified] = {}

    def __init__(self, plan: ExecutionPlan, prefix: Sequence[int] = ()) -> None:
        self.plan = plan
        self.tokens: list[int] = [*prefix]
        self._counts = dict.fromkeys(plan.terms, 1)
        self._answers: Mapping[Term, Sequence[Row]] = {}

    @property
    def final(self) -> int:
        """The number of tokens: all tokens are final."""
        return len(self.tokens)

    @property
    def places(self) -> list[int]:
        """The position that is composed next."""
        return [len(self.tokens)]

    @property
    def formula(self) -> Formula:
        """The formula that is composed in this step: the whole formula."""
        return self.plan.whole

    def standing(self) -> list[None]:
        """Return [None]: there is no token at the composed position."""
        return [None]

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """Return the text, and for each term the number of trailing positions to evaluate: 1."""
        return self.tokens, self._counts

    def receive(self, answers: Mapping[Term, Sequence[Row]]) -> None:
        """Take the log-probabilities that were wanted, one row [vocab] for each term."""
        self._answers = answers

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Sequence[Row]]
    ) -> dict[Term, Sequence[Row]]:
        """Return the rows of the composed position.

        They come from `answers`, because a classifier needs its guide's rows before `receive` is
        called.
        """
        return {term: answers[term] for term in terms}

    def block(self) -> Block:
        """Return the block to compose."""
        return Block(self.formula, self.plan.leaves(self.formula), self._answers, 1)

    def accept(self, verdict: Verdict) -> list[int]:
        """Add the token that was drawn, and return it."""
        self.tokens += verdict.tokens
        return verdict.tokens

    def rewind(self, place: int) -> None:
        """Remove the tokens at and after a place."""
        # A span's continuation only grows, so the text becomes another object.
        self.tokens = self.tokens[:place]


@dataclass(slots=True)
class Pending:
    """A token that not every stage has verified.

    `draft` is the distribution from which it was drawn; None for a token that was proposed without
    a distribution. `source` is what drafted the token; None for a token that was drawn from the
    whole formula.
    """

    token: int
    draft: Row | None
    source: Hashable | None


@dataclass(slots=True)
class Verified:
    """Counts of the tokens that one formula verified, and the sum of their overlaps."""

    evaluated: int = 0
    accepted: int = 0
    overlap: float = 0.0

    def add(self, accepted: bool, overlap: float) -> None:
        """Count one more token."""
        self.evaluated += 1
        self.accepted += accepted
        self.overlap += overlap


class DraftWindow:
    """A text that is being generated, and the rows that are needed to verify its pending tokens.

    Keeps state, for one thread. The last tokens of the text are pending. A `VerificationOrder` says
    which stage verifies which positions. The rows of terms are kept until their positions are
    final. The formula of a stage is composed at `places` in this step.

    `most` limits the number of tokens. `ends` are the tokens that end a text. `rooms` has the
    number of tokens that fit into the context of each draft. The text begins with `prefix`, which
    is final.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        most: int,
        ends: Collection[int],
        rooms: Mapping[Term, int],
        prefix: Sequence[int] = (),
    ) -> None:
        self.plan = plan
        self.tokens: list[int] = [*prefix]
        self.pending: list[Pending] = []  # the last tokens
        self.places: list[int] = []
        self.drafted = self.accepted = 0
        self.verified: dict[Formula, Verified] = {}
        self.seen: list[tuple[Hashable, float]] = []  # sources of drafts, and overlaps
        self._most, self._ends = most, ends
        self._rows: dict[int, dict[Term, Row]] = {}  # by position, from `final` on
        self._order = VerificationOrder(plan, rooms)
        if prefix:
            self._order.rewind(len(prefix))
        self._unproposed = -1  # the last text length at which no proposer had a token
        self._stage: Stage | None = None  # the stage that verifies next
        self._end = 0  # one past the last position that it verifies

    @property
    def proposers(self) -> list[NGram]:
        """The drafts that propose tokens without drawing them."""
        return [term for term in self.plan.proposers if self._order.rooms.get(term, 1)]

    @property
    def formula(self) -> Formula:
        """The formula that is composed in this step: that of the stage which verifies."""
        assert self._stage is not None, "a stage was wanted"
        return self._stage.formula

    @property
    def final(self) -> int:
        """The number of tokens that all stages have verified."""
        return len(self.tokens) - len(self.pending)

    @property
    def idle(self) -> bool:
        """True if all tokens are final, and no term has been evaluated at the next position."""
        return not self.pending and not self._rows

    @property
    def closed(self) -> bool:
        """True if the last token is pending and ends the text."""
        return bool(self.pending) and (
            self.tokens[-1] in self._ends or len(self.tokens) >= self._most
        )

    @property
    def tokens_left(self) -> int:
        """The number of tokens that may be drafted, with room for one more token after them."""
        return self._most - 1 - len(self.tokens)

    @property
    def models(self) -> tuple[Term, ...]:
        """The drafts that would be evaluated if models drafted the next token."""
        beyond = self._order.beyond(len(self.tokens))
        return drafting(self.plan, beyond.union(self.proposers))

    def standing(self) -> list[Pending | None]:
        """Return the pending token at each of `places`; None where a token is yet to be drawn."""
        final, pending = self.final, self.pending
        indices = [place - final for place in self.places]
        return [pending[index] if index < len(pending) else None for index in indices]

    def room_to_propose(self) -> int:
        """Return the number of tokens that may be proposed before a stage is due."""
        length = len(self.tokens)
        if length in self._rows or length == self._unproposed:
            return 0
        if not self.proposers or self.closed:
            return 0
        return max(0, min(self._order.tokens_until_due(length), self.tokens_left))

    def propose(self, tokens: Sequence[int], sources: Sequence[Hashable]) -> None:
        """Append proposed tokens.

        If `tokens` is empty, the proposers are not asked again before the text changes.
        """
        if not tokens:
            self._unproposed = len(self.tokens)
        for token, source in zip(tokens, sources, strict=True):
            if not self.closed:
                self._append(Pending(token, None, source))

    def draft(self, length: int, by_models: bool = False) -> None:
        """Let the terms verify after `length` drafted tokens.

        If `by_models` is True, models draft the tokens. Otherwise only proposers do.
        """
        assert self.idle, "stages change only while no token is pending"
        self._order.begin(len(self.tokens), length, by_models)

    def wanted(self) -> tuple[Sequence[int], dict[Term, int]]:
        """Return the text to evaluate, and the number of trailing positions needed per term."""
        length = len(self.tokens)
        # No token follows a token that ends the text, so no position after it is wanted.
        end = length if self.closed else length + 1
        self._stage, places = self._order.next(length, end)
        self.places, self._end = list(places), places.stop
        counts: dict[Term, int] = {}
        needed = self.plan.needed(self.formula)
        for place in places:
            evaluated = self._rows.get(place, ())
            for term in needed:
                if term not in evaluated:
                    counts.setdefault(term, self._end - place)
        whole = self._end - 1 == length
        return self.tokens if whole else self.tokens[: self._end - 1], counts

    def receive(self, answers: Mapping[Term, Sequence[Row]]) -> None:
        """Take the log-probabilities that were wanted, one row [vocab] for each position."""
        for term, rows in answers.items():
            for place, row in enumerate(rows, self._end - len(rows)):
                self._rows.setdefault(place, {})[term] = row

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Sequence[Row]]
    ) -> dict[Term, list[Row]]:
        """Return the rows of the last `count` positions: received rows, and rows of `answers`."""
        rows: dict[Term, list[Row]] = {}
        for term in terms:
            new = answers.get(term, ())[-count:]
            places = range(self._end - count, self._end - len(new))
            rows[term] = [*(self._rows[place][term] for place in places), *new]
        return rows

    def block(self) -> Block:
        """Return the block to compose, so that the stage can verify."""
        received = [self._rows[place] for place in self.places]
        needed, terms = self.plan.needed(self.formula), self.plan.leaves(self.formula)
        rows = {term: [evaluated[term] for evaluated in received] for term in needed}
        return Block(self.formula, terms, rows, len(received))

    def accept(self, verdict: Verdict) -> list[int]:
        """Keep accepted tokens, replace the first rejected token, and drop the tokens after it.

        Return the tokens that have become final in this step.
        """
        first, formula = self.final, self.formula
        checked = zip(self.places, verdict.tokens, verdict.targets, strict=True)
        checked_tokens = zip(checked, self.standing(), verdict.overlaps, strict=True)
        for (place, token, target), pending, overlap in checked_tokens:
            if pending is not None:
                accepted = pending.token == token
                self.verified.setdefault(formula, Verified()).add(accepted, overlap)
                self.seen.append((pending.source, overlap))
                pending.draft = target
                if accepted:
                    continue
                # The tokens and rows after this place follow the rejected token, so they are
                # dropped. A span's continuation only grows, so the text becomes another object.
                del self.pending[place - first :]
                self.tokens = self.tokens[:place]
                self._rows = {p: rows for p, rows in self._rows.items() if p <= place}
                self._unproposed = -1
            source = None if formula == self.plan.whole else MODEL
            self._append(Pending(token, target, source))
            break
        assert self._stage is not None, "a stage was wanted"
        self._order.advance(self._stage, place + 1, len(self.tokens))
        final = self._order.final
        self.accepted += sum(one.source is not None for one in self.pending[: final - first])
        del self.pending[: final - first]
        self._rows = _rows_from(final, self._rows)
        return self.tokens[first:final]

    def _append(self, pending: Pending) -> None:
        self.drafted += pending.source is not None
        self.tokens.append(pending.token)
        self.pending.append(pending)

    def rewind(self, place: int) -> None:
        """Remove a final token, all tokens after it, and all rows."""
        self.tokens = self.tokens[:place]
        self.pending.clear()
        self.places = []
        self._rows.clear()
        self._order.rewind(place)
        self._unproposed = -1


def _rows_from(final: int, rows: Mapping[int, dict[Term, Row]]) -> dict[int, dict[Term, Row]]:
    """Return the rows at and after position `final`, copied out of the tensors that hold them."""
    kept: dict[int, dict[Term, Row]] = {place: {} for place in rows if place >= final}
    for term in {term: None for place in kept for term in rows[place]}:
        places = [place for place in kept if term in rows[place]]
        for place, row in zip(places, compacted([rows[p][term] for p in places]), strict=True):
            kept[place][term] = row
    return kept
