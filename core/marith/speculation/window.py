"""The draft window: tokens that not every stage has verified, and what they are verified from.

Algorithm 2 of the paper: each position is led by lemma 1 from the formula of the first stage that
verifies it to the whole one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import NGram, Term
from marith.speculation.drafted_text import DraftedText, Pending
from marith.speculation.execution_plan import ExecutionPlan, Stage
from marith.speculation.verification_order import VerificationOrder
from marith.speculation.verify import Verdict
from marith.tensor_rows import Row, compacted

MODEL = "model"  # the source of a token that was drawn from a partial formula


@dataclass(slots=True)
class Block:
    """Positions at which the same formula is composed of `terms`.

    `rows` has one row [vocab] a position of each of them, and of what else has been evaluated.
    """

    formula: Formula
    terms: Sequence[Term]
    rows: Mapping[Term, Sequence[Row]]
    count: int


@dataclass(slots=True)
class Verified:
    """How the tokens fared that one formula verified: how many, how many stood, Σ (1 − TV)."""

    evaluated: int = 0
    stood: int = 0
    overlap: float = 0.0

    def add(self, stood: bool, overlap: float) -> None:
        """One more token."""
        self.evaluated += 1
        self.stood += stood
        self.overlap += overlap


class DraftWindow:
    """A text while it is generated, and what its tokens that are not final are verified from.

    Keeps state, for one thread. `text` has the tokens, a `VerificationOrder` says which stage
    verifies which positions, and what terms have returned there is kept until they are final. What
    is composed now are `formulas` at `places`. `rooms` says how many tokens the contexts of drafts
    hold; `steered` says after which texts the formula is composed, and not the one that stands
    aside for it.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        most: int,
        ends: Collection[int],
        rooms: Mapping[Term, int],
        steered: Callable[[Sequence[int]], bool] | None = None,
    ) -> None:
        self.plan = plan
        self.text = DraftedText(most, ends)
        self.tokens = self.text.tokens
        self.places: list[int] = []
        self.formulas: list[Formula] = []
        self.drafted = self.accepted = 0
        self.verified: dict[Formula, Verified] = {}
        self.seen: list[tuple[Hashable, float]] = []  # sources of drafts, and how likely they stood
        self._steered = steered
        self._rows: dict[int, dict[Term, Row]] = {}  # by position, from `final` on
        self._order = VerificationOrder(plan, rooms)
        self._unproposed = -1  # the last length at which no proposer had a proposal
        self._stage: Stage | None = None  # what verifies next
        self._end = 0  # one past the last position that it verifies

    @property
    def proposers(self) -> list[NGram]:
        """The drafts that propose tokens outright."""
        return [term for term in self.plan.proposers if self._order.rooms.get(term, 1)]

    @property
    def final(self) -> int:
        """How many tokens every stage has verified."""
        return self.text.final

    @property
    def idle(self) -> bool:
        """Whether every token is final, and nothing has been evaluated at the next."""
        return not self.text.pending and not self._rows

    @property
    def models(self) -> tuple[Term, ...]:
        """The drafts that would be evaluated at the next position, if the terms were not."""
        beyond = self._order.beyond(len(self.tokens))
        return self.plan.drafting(beyond.union(self.proposers))

    def standing(self) -> list[Pending | None]:
        """What stands at each of `places`; None where a token is yet to be drawn."""
        return [self.text.at(place) for place in self.places]

    def room_to_propose(self) -> int:
        """How many tokens may be proposed before a stage falls due."""
        length = len(self.tokens)
        if length in self._rows or length == self._unproposed:
            return 0
        if not self.proposers or self.text.closed:
            return 0
        return max(0, min(self._order.room(length), self.text.room))

    def propose(self, tokens: Sequence[int], sources: Sequence[Hashable]) -> None:
        """Append tokens, drawn from nothing; without any, no proposer is asked here again."""
        if not tokens:
            self._unproposed = len(self.tokens)
        for token, source in zip(tokens, sources, strict=True):
            if not self.text.closed:
                self.drafted += source is not None
                self.text.append(token, None, source)

    def draft(self, length: int, by_models: bool = False) -> None:
        """The terms verify after so many tokens, which models draft, or proposers alone."""
        assert self.idle, "stages change only where nothing is pending"
        self._order.begin(len(self.tokens), length, by_models)

    def wanted(self) -> tuple[Sequence[int], dict[Term, int]]:
        """What is to be evaluated now: a text, and at how many of its last positions each term."""
        length = len(self.tokens)
        end = length if self.text.closed else length + 1
        self._stage, places = self._order.next(length, end)
        self.places, self._end = list(places), places.stop
        formula, aside, steered = self._stage.formula, self.plan.aside, self._steered
        self.formulas = [formula] * len(places)
        if aside is not None and steered is not None and formula == self.plan.whole:
            self.formulas = [formula if steered(self.tokens[:at]) else aside for at in places]
        counts: dict[Term, int] = {}
        for place, formula in zip(places, self.formulas, strict=True):
            evaluated = self._rows.get(place, ())
            for term in self.plan.needed(formula):
                if term not in evaluated:
                    counts.setdefault(term, self._end - place)
        return self.tokens[: self._end - 1], counts

    def receive(self, answers: Mapping[Term, Sequence[Row]]) -> None:
        """The log-probabilities that were wanted, one row [vocab] a position."""
        for term, rows in answers.items():
            for place, row in enumerate(rows, self._end - len(rows)):
                self._rows.setdefault(place, {})[term] = row

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Sequence[Row]]
    ) -> dict[Term, list[Row]]:
        """Of the last `count` positions; `answers` are not received yet."""
        rows: dict[Term, list[Row]] = {}
        for term in terms:
            new = answers.get(term, ())[-count:]
            places = range(self._end - count, self._end - len(new))
            rows[term] = [*(self._rows[place][term] for place in places), *new]
        return rows

    def blocks(self) -> list[Block]:
        """What is to be composed, so that the stage can verify."""
        blocks = []
        for formula, run in groupby(zip(self.places, self.formulas, strict=True), lambda at: at[1]):
            received = [self._rows[place] for place, _ in run]
            needed, terms = self.plan.needed(formula), self.plan.leaves(formula)
            rows = {term: [evaluated[term] for evaluated in received] for term in needed}
            blocks.append(Block(formula, terms, rows, len(received)))
        return blocks

    def accept(self, verdict: Verdict) -> list[int]:
        """Keep what stands, drop what follows a token that does not; the tokens now final."""
        text, first = self.text, self.text.final
        checked = zip(self.places, self.formulas, verdict.tokens, verdict.overlaps, strict=True)
        for (place, formula, token, overlap), target in zip(checked, verdict.targets, strict=True):
            pending = text.at(place)
            if pending is not None:
                stood = pending.token == token
                self.verified.setdefault(formula, Verified()).add(stood, overlap)
                self.seen.append((pending.source, overlap))
                pending.draft = target
                if stood:
                    continue
                text.cut(place)  # and what follows it, which was evaluated for the old one
                self._rows = {p: rows for p, rows in self._rows.items() if p <= place}
                self._unproposed = -1
            source = None if formula in (self.plan.whole, self.plan.aside) else MODEL
            self.drafted += source is not None
            text.append(token, target, source)
            break
        assert self._stage is not None, "a stage was wanted"
        self._order.advance(self._stage, place + 1, len(self.tokens))
        final = self._order.final
        self.accepted += sum(token.source is not None for token in text.confirm(final))
        self._keep_from(final)
        return self.tokens[first:final]

    def _keep_from(self, final: int) -> None:
        """Forget the rows before `final`, and what the others would keep in memory besides."""
        kept: dict[Term, list[int]] = defaultdict(list)
        for place in [*self._rows]:
            if place < final:
                del self._rows[place]
                continue
            for term in self._rows[place]:
                kept[term].append(place)
        for term, places in kept.items():
            rows = compacted([self._rows[place][term] for place in places])
            for place, row in zip(places, rows, strict=True):
                self._rows[place][term] = row

    def rewind(self, place: int) -> None:
        """Take back the tokens from a final one on, and all that was evaluated after them."""
        self.text.rewind(place)
        self.places, self.formulas = [], []
        self._rows.clear()
        self._order.rewind(place)
        self._unproposed = -1
