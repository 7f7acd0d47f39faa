"""The parts of a formula that check a position are the same whatever token stands there."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
import torch

from marith import Classifier, FormulaError, NGram, Plan, Prompted, RequestError
from marith.formula.meaning.analysis import drafts, leaves
from marith.formula.meaning.binding import bind, resolve
from marith.formula.text.trust import parse
from marith.formula.tree.terms import Term
from marith.speculation.execution_plan import ExecutionPlan
from marith.speculation.verify import Verdict
from marith.speculation.window import DraftWindow
from marith.tensor_rows import rows_of

END = 1
CASES = 150
NAMES = {
    **{name: Prompted(name) for name in "abcde"},
    "N": NGram(texts=("q",)),
    "O": NGram(order=3, online=True),
    "C": Classifier("j", guide=Prompted("a")),
    "K": Classifier("k"),
}
FORMULAS = (
    "M + a + b",
    "2*M - a + b",
    "M - 2*a + 2*b + c",
    "M + b + C",
    "M + a + b + 2*K",
    "union(M, a) - 0.5*b + c",
    "supersede(d, M + a + C)",
    "M - 0.5*b + supersede(d, c) + C",
    "supersede(d, M) - 2*a + 2*b",
    "supersede(N, supersede(d, M - 0.5*a + b))",
    "supersede(d, M + a) + supersede(e, b)",
    "supersede(supersede(N, d), M + a) + b",
    "supersede(N, M) + supersede(d, a) - 0.5*b",
    "-1*a + M + supersede(N, b)",
    "supersede(N, supersede(d, supersede(e, M + a)))",
)
CHAINS = (("N",), ("N", "d"), ("O", "e"), ("d",), ("d", "e"))


def plan_of(draw: random.Random) -> ExecutionPlan | None:
    """A formula, and a plan that may fit it."""
    known = resolve(NAMES)
    formula = parse(draw.choice(FORMULAS))
    bound = bind(formula, known)
    terms = [str(term) for term in (*leaves(bound), *drafts(bound))]
    every = {term: draw.randint(1, 5) for term in terms if draw.random() < 0.8}
    chain = draw.choice(CHAINS) if draw.random() < 0.4 else ()
    asked = Plan(tuple(every.items()), chain, draw.randint(1, 8) if chain else None)
    try:
        return ExecutionPlan.of(formula, known, asked)
    except (RequestError, FormulaError):
        return None


class Chance:
    """Random events: one stream before the place in question has a token, another after it."""

    def __init__(self, before: float, after: int) -> None:
        self.draw = random.Random(before)
        self._after = after
        self.seen = False

    def see(self) -> None:
        if not self.seen:
            self.draw, self.seen = random.Random(self._after), True

    def token(self) -> int:
        return END if self.draw.random() < 0.3 else self.draw.randrange(2, 50)


def guess(window: DraftWindow, place: int, chance: Chance, met: list[str]) -> None:
    while room := window.room_to_propose():
        tokens = []
        for at in range(len(window.tokens), len(window.tokens) + chance.draw.randint(0, room)):
            if at == place:
                chance.see()
                met.append("proposed")
            tokens.append(chance.token())
        window.propose(tokens, [None] * len(tokens))


def settle(window: DraftWindow, place: int, chance: Chance, met: list[str]) -> bool:
    """Keep or replace what stands by chance; whether the place itself was discarded."""
    tokens: list[int] = []
    over = discarded = False
    for at, part, stood in zip(window.places, window.formulas, window.standing(), strict=True):
        if over:
            tokens.append(0 if stood is None else stood.token)
            continue
        if at == place:
            met.append(str(part))
            chance.see()
        keep = stood is not None and chance.draw.random() < 0.8
        over = not keep
        discarded = discarded or (not keep and stood is not None and at < place and chance.seen)
        new = chance.token()
        while stood is not None and new == stood.token:
            new = chance.token()
        tokens.append(stood.token if stood is not None and keep else new)
    window.accept(Verdict(tokens, [0.0] * len(tokens), rows_of(torch.zeros(len(tokens), 1))))
    return discarded


def itinerary(
    plan: ExecutionPlan, most: int, rooms: Mapping[Term, int], place: int, chance: Chance
) -> tuple[list[str], bool] | None:
    """What checked the place, and whether it became final; None where the text never got there."""
    window = DraftWindow(plan, most, {END}, rooms)
    met: list[str] = []
    while window.final <= place:
        if window.final >= most or (window.final and window.tokens[window.final - 1] == END):
            return None
        guess(window, place, chance, met)
        _, counts = window.wanted()
        window.receive({term: rows_of(torch.zeros(count, 1)) for term, count in counts.items()})
        if settle(window, place, chance, met):
            return met, False
    return (met, True) if chance.seen else None


@pytest.mark.parametrize("seed", range(4))
def test_who_checks_a_position_hangs_on_no_token_that_stands_there(seed: int) -> None:
    draw = random.Random(seed)
    compared = 0
    for _ in range(CASES):
        plan = plan_of(draw)
        most, place, before = draw.randint(4, 12), draw.randint(0, 4), draw.random()
        if plan is None:
            continue
        rooms = {draft: draw.randint(1, 8) for draft in plan.drafts if draw.random() < 0.5}
        met = [itinerary(plan, most, rooms, place, Chance(before, after)) for after in range(10)]
        whole = {tuple(parts) for parts, final in filter(None, met) if final}
        assert len(whole) <= 1, (plan, most, place)
        for parts, _ in filter(None, met):
            assert all(longest[: len(parts)] == tuple(parts) for longest in whole)
        compared += bool(whole)
    assert compared > CASES // 3
