"""The draft window as the enumeration drives it: the only file that knows marith's classes.

A window is started, asked what it verifies, and given the sampled tokens. In between it is bytes:
equal bytes are equal states, and a state is read once for each of its branches.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal

import numpy as np
import torch
from support.term_tables import MOST, NUMBER, TABLES, VOCAB, Law, proposed
from torch import Tensor

from marith import Classifier, Formula, NGram, Plan, Prompted, Sampling, parse
from marith.decoding.blocks import Block
from marith.decoding.evaluate import candidates_of, evaluate
from marith.decoding.row_constraints import penalised
from marith.decoding.sampling import warp
from marith.formula.meaning.binding import bind, resolve
from marith.formula.tree.terms import Position, Reasoning, Term
from marith.speculation.execution_plan import LOOKUP, ExecutionPlan
from marith.speculation.verify import NOT_DRAFTED, Verdict, verify
from marith.speculation.window import DraftWindow
from marith.tensor_rows import Row, gather, rows_of, vector

__all__ = ["NOT_DRAFTED", "Check", "Driver", "Setup", "verify"]

TERMS: dict[str, Formula] = {
    **{name: Prompted(name) for name in "abcdeh"},
    "C": Classifier("judge", candidates=2, guide=Prompted("a")),
    "N": NGram(texts=("q",)),
}
KNOWN = resolve(TERMS)
WALKED = {int, bool, float, list, dict, tuple, type(None), type}  # plain state is part of the bytes
NAME_OF = {bind(parse(name), KNOWN): name for name in (*TERMS, "M")} | {LOOKUP: "N"}


@dataclass(frozen=True)
class Setup:
    """A formula, its law, and all that may change its cost but not the distribution of texts.

    `law` computes the composed scores from the rows of the tables. With "auto", `lengths` says how
    many tokens are drafted after a text of which every token is verified, and whether models draft
    them. `rooms` are tokens that a draft's context holds. `reasons` says of each text whether
    `reasoning()` observes 1 after it.
    """

    formula: str
    law: Law
    plan: Plan | Literal["auto"] | None = None
    sampling: Sampling = field(default_factory=Sampling)
    ends: frozenset[int] = frozenset()
    rooms: Mapping[str, int] = field(default_factory=dict)
    lengths: Callable[[Sequence[int]], tuple[int, bool]] | None = None
    reasons: Callable[[Sequence[int]], bool] | None = None


@dataclass(frozen=True)
class Check:
    """A position to verify: target and draft log-probabilities [VOCAB], and the token drafted."""

    target: Tensor
    draft: Tensor | None
    token: int


def composed(block: Block) -> Tensor:
    """Return log-probabilities [positions, VOCAB]."""
    return evaluate(block.formula, {term: gather(rows) for term, rows in block.rows.items()})


class _Pickler(pickle.Pickler):
    def __init__(self, into: io.BytesIO, number: Callable[[Any], int | None]) -> None:
        super().__init__(into)
        self._number = number

    def persistent_id(self, thing: Any) -> int | None:
        return self._number(thing)


class _Unpickler(pickle.Unpickler):
    def __init__(self, state: io.BytesIO, shared: Sequence[Any]) -> None:
        super().__init__(state)
        self._shared = shared

    def persistent_load(self, number: Any) -> Any:
        return self._shared[number]


class Driver:
    """Drives the draft windows of one set-up."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.plan = ExecutionPlan.of(parse(setup.formula), KNOWN, setup.plan)
        self._shared: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def begin(self) -> DraftWindow:
        setup, named = self.setup, {NAME_OF[term]: term for term in self.plan.drafts}
        rooms = {named[name]: room for name, room in setup.rooms.items()}
        return DraftWindow(self.plan, MOST, setup.ends, rooms)

    def verified(self, window: DraftWindow) -> tuple[int, ...]:
        """Return the tokens that are final."""
        return tuple(window.tokens[: window.final])

    def checks(self, window: DraftWindow) -> list[Check]:
        """Propose and score until there is something to verify, and return it."""
        self._draft(window)
        window.receive(self._answers(window))
        rows = composed(window.block())
        places, standing = window.places, window.standing()
        return [
            Check(
                self._target(row[None], window.tokens[:place]),
                None if stood is None or stood.draft is None else vector(stood.draft),
                NOT_DRAFTED if stood is None else stood.token,
            )
            for row, place, stood in zip(rows, places, standing, strict=True)
        ]

    def _target(self, row: Tensor, before: Sequence[int]) -> Tensor:
        """Return the log-probabilities that a token is drawn from after the tokens `before`."""
        sampling = self.setup.sampling
        if sampling.penalises:
            row = penalised(row, before, sampling, ())
        return warp(row, sampling)[0]

    def accept(self, window: DraftWindow, checks: Sequence[Check], tokens: Sequence[int]) -> None:
        targets = [(check.target[None], 0) for check in checks]
        window.accept(Verdict(list(tokens), [0.0] * len(tokens), targets))

    def freeze(self, window: DraftWindow) -> bytes:
        """Return everything that the future of a window depends on, as bytes."""
        window.drafted = window.accepted = 0
        window.verified.clear()
        window.seen.clear()
        into = io.BytesIO()
        _Pickler(into, self._number).dump(window)
        return into.getvalue()

    def thaw(self, state: bytes) -> DraftWindow:
        window: DraftWindow = _Unpickler(io.BytesIO(state), self._shared).load()
        return window

    def _number(self, thing: Any) -> int | None:
        """Return the number of an object that never changes and that all states share, or None."""
        if type(thing) in WALKED:
            return None
        if isinstance(thing, str):
            key: Hashable = thing
        elif isinstance(thing, Tensor):
            key = (*thing.shape, thing.numpy().tobytes())
        elif isinstance(thing, Formula | ExecutionPlan | FunctionType):
            key = id(thing)
        else:
            return None
        if key not in self._numbers:
            self._numbers[key] = len(self._shared)
            self._shared.append(thing)
        return self._numbers[key]

    def _draft(self, window: DraftWindow) -> None:
        """Draft, as the controller and the proposers do."""
        if not self.plan.chooses_lengths:
            while most := window.room_to_propose():
                tokens = proposed(window.tokens, most)
                window.propose(tokens, ["proposer"] * len(tokens))
        elif window.idle and window.tokens:
            assert self.setup.lengths is not None
            length, by_models = self.setup.lengths(window.tokens)
            length = min(length, window.tokens_left)
            by_models = by_models and bool(window.models)
            tokens = [] if by_models else proposed(window.tokens, length)
            window.draft(length if by_models else len(tokens), by_models)
            if tokens:
                window.propose(tokens, ["proposer"] * len(tokens))

    def _answers(self, window: DraftWindow) -> dict[Term, list[Row]]:
        text, counts = window.wanted()
        answers: dict[Term, list[Row]] = {}
        for term in sorted(counts, key=lambda term: isinstance(term, Classifier)):
            count = counts[term]
            texts = [tuple(text[:at]) for at in range(len(text) + 1 - count, len(text) + 1)]
            if isinstance(term, Position):
                rows = torch.tensor([[len(one)] for one in texts], dtype=torch.float64)
            elif isinstance(term, Reasoning):
                assert self.setup.reasons is not None
                told = [[float(self.setup.reasons(one))] for one in texts]
                rows = torch.tensor(told, dtype=torch.float64)
            else:
                table = TABLES[NAME_OF[term]]
                rows = torch.from_numpy(np.stack([table[NUMBER[one]] for one in texts]))
            if isinstance(term, Classifier):
                guide = self.plan.guide_of(term)
                rows_by_term = window.rows(self.plan.leaves(guide), count, answers)
                logprobs = {term: gather(own) for term, own in rows_by_term.items()}
                judged = candidates_of(guide, logprobs, term.candidates)
                for row, tokens in zip(rows, judged, strict=True):
                    row[[t for t in range(VOCAB) if t not in tokens]] = 0.0
            answers[term] = rows_of(rows)
        return answers
