"""Speculation changes what a text costs and never the text; a plan that does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.checked_engine import FORMULAS, CheckedEngine, request

from marith import Plan, Request, Sampling, Stop
from marith.errors import FormulaError, RequestError
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.leaves import leaves
from marith.formula.text.trust import parse
from marith.request.completion import StageStats

OWN = "ngram(order=3, online=True)"
GREEDY = Sampling(0.0)
KEYS = "q w e r t y u i o p"  # a prompt
DRAFTS = ("A", "big", OWN, f"supersede({OWN}, big)")
# every draft for three of the formulas, and two drafts for each of them
DRAFTED = [(f, d) for i, f in enumerate(FORMULAS[:6]) for j, d in enumerate(DRAFTS) if (i + j) % 2]

every = st.dictionaries(st.text(), st.integers(1, 16))
some = st.lists(st.text(), min_size=1).map(tuple)
plans = st.builds(Plan, every=every) | st.builds(
    Plan, every=every, drafted_by=some, length=st.none() | st.integers(1, 15)
)


def plans_for(checked: CheckedEngine, formula: str) -> Iterator[Plan]:
    """Factors of both orders of the formula's terms, and drafts of every kind."""
    terms = [str(term) for term in leaves(bind(parse(formula), resolve(checked.terms)))]
    for order in (terms, terms[::-1]):
        yield Plan.factors({term: (1, 4, 3, 2)[i % 4] for i, term in enumerate(order)})
    yield Plan.drafts("A", length=3)
    yield Plan.drafts(OWN, length=7)
    yield Plan.drafts("big", length=2)
    yield Plan.drafts(OWN, "A", "big", length=5)


@pytest.mark.parametrize("formula", FORMULAS)
def test_at_temperature_zero_no_plan_changes_the_text(checked: CheckedEngine, formula: str) -> None:
    i = FORMULAS.index(formula)
    asked = request(checked, formula, 3 + i, GREEDY)
    expected = checked.reference.decode(asked)
    plans = [*plans_for(checked, formula)][i % 2 :: 2]  # each for half of the formulas
    requests = [replace(asked, speculation=plan) for plan in plans]
    tickets = [(one, checked.engine.submit(one)) for one in requests]
    for one, ticket in tickets:
        out = ticket.result(60)
        assert (out.text, out.tokens, out.finish_reason) == expected, one.speculation
        assert out.stats.accepted <= out.stats.drafted


@pytest.mark.parametrize(("formula", "draft"), DRAFTED)
def test_with_a_seed_auto_gives_the_text_of_the_reference_decoder(
    checked: CheckedEngine, formula: str, draft: str
) -> None:
    asked = request(checked, f"supersede({draft}, {formula})", 5, Sampling(0.9, top_p=0.95, seed=8))
    out = checked.engine.submit(replace(asked, speculation="auto")).result(60)
    assert (out.text, out.tokens, out.finish_reason) == checked.reference.decode(asked)


def test_a_drafted_block_is_cut_where_the_text_ends(checked: CheckedEngine) -> None:
    """Right drafts for the whole text, so that its end lies within a block wherever it is."""
    text = checked.engine.generate(KEYS, "M", sampling=GREEDY, stop=Stop(12), speculation=None).text
    spaced = " ".join(text)
    plan = Plan.drafts(f'ngram(texts=["{spaced}"], order=9)', length=5)
    stops = [Stop(most) for most in range(1, 12)]
    stops += [Stop(12, (text[at : at + 2],)) for at in range(10)]
    for stop in stops:
        asked = Request(KEYS, "M", None, GREEDY, stop, plan)
        out = checked.engine.submit(asked).result(60)
        assert (out.text, out.tokens, out.finish_reason) == checked.reference.decode(asked)
        assert out.stats.tokens == len(out.tokens)
    assert out.stats.accepted > 0


def test_an_end_within_a_block_ends_the_text(checked: CheckedEngine) -> None:
    """Without a limit in sight: whatever the seeds, what follows an end is never told."""
    plan = Plan.factors({"M": 1, "x": 5})
    terms = {**checked.terms, "ends": {"formula": 'ngram(texts=["a"], order=1)'}}
    stop, ended = Stop(40), 0
    for i in range(12):
        sampling = Sampling(1.0, seed=i)
        out = checked.engine.generate("a b", "M + x + 2*ends", terms, sampling, stop, plan)
        assert 1 not in out.tokens
        assert out.usage.completion_tokens == len(out.tokens)
        ended += out.finish_reason == "stop"
    assert ended >= 6


def test_seeds_reproduce_alone_and_among_others(checked: CheckedEngine) -> None:
    asked = [
        replace(
            request(checked, formula, i, Sampling(1.1, seed=i)),
            speculation=list(plans_for(checked, formula))[i % 6],
        )
        for i in range(16)
        for formula in [FORMULAS[i % len(FORMULAS)]]
    ]
    together = [checked.engine.submit(one) for one in asked]
    tokens = [ticket.result(60).tokens for ticket in together]
    backwards = [checked.engine.submit(one) for one in reversed(asked)]
    assert [ticket.result(60).tokens for ticket in reversed(backwards)] == tokens
    for i in range(0, 16, 3):
        assert checked.engine.submit(asked[i]).result(60).tokens == tokens[i]


def test_the_cost_and_the_accepted_drafts_of_a_late_term_are_counted(
    checked: CheckedEngine,
) -> None:
    """M nearly agrees with x: of every four tokens three wait for it, and all stand."""
    formula, plan = "x + 0.001*M", Plan.factors({"M": 4})
    out = checked.engine.generate(KEYS, formula, checked.terms, GREEDY, Stop(8), plan)
    stats, whole = out.stats, str(bind(parse(formula), resolve(checked.terms)))
    assert (stats.tokens, stats.drafted, stats.accepted) == (8, 6, 6)
    assert stats.calls == 8 + 2  # x at every token, M at every fourth
    assert stats.passes == 8  # one set of weights, together
    assert stats.stages == (StageStats(whole, 6, 6, 1.0),)
    assert stats.acceptance == stats.stages[0].acceptance == 1.0


def test_rejected_drafts_are_counted(checked: CheckedEngine) -> None:
    """After an x, and nowhere else, the n-gram proposes z x z; the text is `xiavxake`."""
    plan = Plan.drafts('ngram(texts=["x z x z x z"], order=2)', length=3)
    out = checked.engine.generate(KEYS, "M", None, GREEDY, Stop(8), plan)
    assert out.text == "xiavxake"
    stats = out.stats
    assert (stats.calls, stats.passes) == (8, 8)  # a proposal costs no call
    assert (stats.drafted, stats.accepted) == (3 + 2, 0)  # seven tokens hold two more and one
    assert stats.stages == (StageStats("prompted()", 2, 0, 0.0),)  # what follows is not evaluated


@given(plans)
def test_a_plan_survives_json(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Plan.factors({"M": 17}), "'M' must be a whole number from 1 to 16, not 17"),
        (lambda: Plan.factors({"M": True}), "'M' must be a whole number from 1 to 16, not True"),
        (lambda: Plan.factors([("M", 1)]), "factors must map terms to whole numbers, not"),
        (lambda: Plan.drafts("A", length=16), "from 1 to 15, not 16"),
        (lambda: Plan.drafts(), "must name at least one"),
        (lambda: Plan(length=4), "length 4 is the length of drafts, so it needs drafted_by"),
        (lambda: Plan(every=(("x", 2), ("x", 5))), "names 'x' twice"),
    ],
)
def test_an_invalid_plan_is_refused(make: Callable[[], Plan], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        make()


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (Plan.factors({"nobody": 2}), "names 'nobody': unknown term 'nobody'"),
        (Plan.factors({"y": 2}), "names 'y', which is not a term of the formula"),
        (
            Plan.factors({"M": 2, "x": 3}),
            r"the factors are {'M': 2, 'x': 3}; .*, as in Plan.factors\({'M': 1, 'x': 3}\)",
        ),
        (Plan.drafts("M +"), "names 'M \\+': not a formula"),
        (Plan.drafts("nobody"), "names 'nobody': unknown term"),
        (Plan(every=(("M", 2), ("prompted()", 5))), "two factors: 2 and 5"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(
    checked: CheckedEngine, plan: Plan, problem: str
) -> None:
    with pytest.raises(RequestError, match=problem):
        checked.engine.submit(Request("a", "M + x", checked.terms, speculation=plan))


@pytest.mark.parametrize("draft", ["C", "M - 2*x"])
def test_a_draft_without_weight_is_refused(checked: CheckedEngine, draft: str) -> None:
    with pytest.raises(FormulaError, match="weight above zero"):
        checked.engine.submit(Request("a", "M + x", checked.terms, speculation=Plan.drafts(draft)))


def test_with_a_draft_no_term_needs_the_factor_one(checked: CheckedEngine) -> None:
    plan = Plan.factors({"M": 3, "x": 4})
    asked = Request("a b", "supersede(A, M + x)", checked.terms, GREEDY, Stop(9), plan)
    out = checked.engine.submit(asked).result(60)
    assert (out.text, out.tokens, out.finish_reason) == checked.reference.decode(asked)
