"""The draft window: tokens that not every stage has verified, and what they are verified from.

Algorithm 2 of the paper: each position is led by lemma 1 from the formula of the first stage that
verifies it to the whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import NGram, Term
from marith.speculation.execution_plan import ExecutionPlan, Stage
from marith.speculation.verification_order import VerificationOrder
from marith.speculation.verify import Verdict
from marith.tensor_rows import Row

MODEL = "model"  # the source of a token that was drawn from a partial formula


@dataclass(slots=True)
class Block:
    """Positions at which the same formula is composed, from one row [vocab] of each term each."""

    formula: Formula
    rows: Mapping[Term, Sequence[Row]]

    @property
    def count(self) -> int:
        """How many positions."""
        return len(next(iter(self.rows.values())))


@dataclass(slots=True)
class Pending:
    """A token that is not final.

    `draft` is the distribution that it was drawn from, None for a token that was proposed outright;
    `source` says what drafted it, None for a token that the whole formula has drawn.
    """

    token: int
    draft: Row | None
    source: Hashable | None


@dataclass(slots=True)
class Verified:
    """How the tokens fared that one formula verified: how many, how many stood, Σ (1 − TV)."""

    evaluated: int = 0
    stood: int = 0
    overlap: float = 0.0


class DraftWindow:
    """A text while it is generated: `final` tokens that every stage has verified, others pending.

    Keeps state, for one thread. `most` bounds the tokens, `ends` are those that end a text,
    `rooms` how many tokens the contexts of drafts hold; `steered` says after which texts the
    formula is composed, and not the one that stands aside for it.
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
        self.tokens: list[int] = []
        self.drafted = self.accepted = 0
        self.verified: dict[Formula, Verified] = {}
        self.seen: list[tuple[Hashable, float]] = []  # sources of drafts, and how likely they stood
        self._most, self._ends, self._steered = most, ends, steered
        self._pending: list[Pending] = []
        self._rows: dict[int, dict[Term, Row]] = {}  # by position, from `final` on
        self._order = VerificationOrder(plan, rooms)
        self._unproposed = -1  # the last length at which no proposer had a proposal
        self._stage: Stage | None = None  # what verifies next
        self._end = 0  # one past the last position that it verifies
        self._checked: list[tuple[int, Formula]] = []

    @property
    def proposers(self) -> list[NGram]:
        """The drafts that propose tokens outright."""
        return [term for term in self.plan.proposers if self._order.rooms.get(term, 1)]

    @property
    def final(self) -> int:
        """How many tokens every stage has verified."""
        return len(self.tokens) - len(self._pending)

    @property
    def closed(self) -> bool:
        """Whether the last token, though pending, leaves no place for another."""
        return bool(self._pending) and (
            self.tokens[-1] in self._ends or len(self.tokens) >= self._most
        )

    @property
    def room(self) -> int:
        """How many tokens may be drafted, with a place left for one more."""
        return self._most - 1 - len(self.tokens)

    @property
    def idle(self) -> bool:
        """Whether every token is final, and nothing has been evaluated at the next."""
        return not self._pending and not self._rows

    @property
    def models(self) -> tuple[Term, ...]:
        """The drafts that would be evaluated at the next position, if the terms were not."""
        beyond = self._order.beyond(len(self.tokens))
        return self.plan.drafting(beyond.union(self.proposers))

    @property
    def places(self) -> list[int]:
        """The composed positions."""
        return [place for place, _ in self._checked]

    @property
    def formulas(self) -> list[Formula]:
        """What is composed at each of `places`."""
        return [formula for _, formula in self._checked]

    def standing(self) -> list[Pending | None]:
        """What stands at each composed position; None where a token is yet to be drawn."""
        return [self._pending_at(place) for place, _ in self._checked]

    def room_to_propose(self) -> int:
        """How many tokens may be proposed before a stage falls due."""
        length = len(self.tokens)
        if not self.proposers or self.closed or length in self._rows or length == self._unproposed:
            return 0
        return max(0, min(self._order.room(length), self.room))

    def propose(self, tokens: Sequence[int], sources: Sequence[Hashable]) -> None:
        """Append tokens, drawn from nothing; without any, no proposer is asked here again."""
        if not tokens:
            self._unproposed = len(self.tokens)
        for token, source in zip(tokens, sources, strict=True):
            if not self.closed:
                self._append(token, None, source)

    def draft(self, length: int, by_models: bool = False) -> None:
        """The terms verify after so many tokens, which models draft, or proposers alone."""
        assert self.idle, "stages change only where nothing is pending"
        self._order.begin(len(self.tokens), length, by_models)

    def wanted(self) -> tuple[Sequence[int], dict[Term, int]]:
        """What is to be evaluated now: a text, and at how many of its last positions each term."""
        length = len(self.tokens)
        self._stage, places = self._order.next(length, length if self.closed else length + 1)
        self._checked = [(place, self._composed_at(place, self._stage.formula)) for place in places]
        self._end = places.stop
        counts: dict[Term, int] = {}
        for place, formula in self._checked:
            known = self._rows.get(place, ())
            for term in self.plan.leaves(formula):
                if term not in known:
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
        found: dict[Term, list[Row]] = {}
        for term in terms:
            new = answers.get(term, ())[-count:]
            places = range(self._end - count, self._end - len(new))
            found[term] = [*(self._rows[place][term] for place in places), *new]
        return found

    def blocks(self) -> list[Block]:
        """What is to be composed, so that the stage can verify."""
        blocks = []
        for formula, run in groupby(self._checked, key=lambda item: item[1]):
            places = [place for place, _ in run]
            terms = self.plan.leaves(formula)
            rows = {term: [self._rows[place][term] for place in places] for term in terms}
            blocks.append(Block(formula, rows))
        return blocks

    def accept(self, verdict: Verdict) -> list[int]:
        """Keep what stands, drop what follows a token that does not; the tokens now final."""
        known = self.final
        checked = zip(self._checked, verdict.tokens, verdict.overlaps, verdict.targets, strict=True)
        for (place, formula), token, overlap, target in checked:
            stood = self._pending_at(place)
            if stood is None:
                self._append(token, target, self._source(formula))
                break
            self._note(formula, stood, stood.token == token, overlap)
            stood.draft = target
            if stood.token != token:
                self._replace(place, token, target, self._source(formula))
                break
        assert self._stage is not None, "a stage was wanted"
        self._order.advance(self._stage, place + 1, len(self.tokens))
        return self._finish(known)

    def rewind(self, place: int) -> None:
        """Take back the tokens from a final one on, and all that was evaluated after them."""
        del self.tokens[place:], self._pending[:], self._checked[:]
        self._rows.clear()
        self._order.rewind(place)
        self._unproposed = -1

    def _composed_at(self, place: int, formula: Formula) -> Formula:
        """What is composed at a position: the formula, or what stands aside for the whole one."""
        aside = self.plan.aside
        if aside is None or self._steered is None or formula != self.plan.whole:
            return formula
        return formula if self._steered(self.tokens[:place]) else aside

    def _pending_at(self, place: int) -> Pending | None:
        at = place - self.final
        return self._pending[at] if at < len(self._pending) else None

    def _append(self, token: int, draft: Row | None, source: Hashable | None) -> None:
        self.drafted += source is not None
        self.tokens.append(token)
        self._pending.append(Pending(token, draft, source))

    def _source(self, formula: Formula) -> Hashable | None:
        return None if formula in (self.plan.whole, self.plan.aside) else MODEL

    def _replace(self, place: int, token: int, target: Row, source: Hashable | None) -> None:
        """Another token stands here; what followed the old one is void."""
        del self._pending[place - self.final :], self.tokens[place:]
        self._rows = {p: rows for p, rows in self._rows.items() if p <= place}
        self._unproposed = -1
        self._append(token, target, source)

    def _note(self, formula: Formula, pending: Pending, stood: bool, overlap: float) -> None:
        verified = self.verified.setdefault(formula, Verified())
        verified.evaluated += 1
        verified.stood += stood
        verified.overlap += overlap
        self.seen.append((pending.source, overlap))

    def _finish(self, known: int) -> list[int]:
        """Let go of what is final."""
        end = self._order.final
        self.accepted += sum(p.source is not None for p in self._pending[: end - known])
        del self._pending[: end - known]
        for place in [place for place in self._rows if place < end]:
            del self._rows[place]
        return self.tokens[known:end]
