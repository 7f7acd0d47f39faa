"""Speculation that adapts: it drafts where that pays, learns where it does not, and tries again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate, pairwise, product
from operator import mul
from pathlib import Path
from statistics import median_low
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_engine import assume_times

from marith import Engine, Sampling, Stop
from marith.formula.tree.terms import Term
from marith.speculation.auto import (
    EVERY,
    HOPED,
    LONG,
    MARGIN,
    SHARE,
    SHORT,
    Controller,
    Draft,
    PassTimes,
    lengths,
)
from marith.testing import passes_of, tiny_model, tiny_tokenizer

Cost = Callable[[int], float]
# at temperature 0 it says the same again and again
ROUND = "0.0001*M + ngram(texts=['a b c d e f a b c d e f a b c d e f'], order=3)"
COLD = Sampling(temperature=0.0)
TEXT = Stop(120)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.load(tiny_model(seed=4, context_length=512), tokenizer=tiny_tokenizer()) as engine:
        yield engine


class Fixed(PassTimes):
    """A machine on which the first row of a pass costs one second, and each further row `more`."""

    more = 0.0

    def cost(self, rows: int) -> float:
        return 1.0 + self.more * (rows - 1)


class Flat(Fixed):
    """Further rows cost nothing."""


class Mild(Fixed):
    """Every further row costs a little."""

    more = 0.03


class Steep(Fixed):
    """Every row costs as much as the first."""

    more = 1.0


def fly(engine: Engine, times: type[PassTimes]) -> None:
    assume_times(engine, times)


# -- in an engine ----------------------------------------------------------------------------------


def test_a_text_that_repeats_itself_is_copied_and_takes_few_passes(engine: Engine) -> None:
    plain = engine.generate("a b c", ROUND, sampling=COLD, stop=TEXT, speculation=None)
    fly(engine, Flat)
    auto = engine.generate("a b c", ROUND, sampling=COLD, stop=TEXT)
    assert auto.tokens == plain.tokens
    assert len(auto.tokens) == 120
    assert auto.stats.passes_per_token < 0.4
    assert auto.stats.acceptance is not None
    assert auto.stats.acceptance > 0.6
    assert plain.stats.passes_per_token >= 1.0


def test_nothing_is_drafted_before_a_plain_step_has_been_timed(engine: Engine) -> None:
    auto = engine.generate("a b a b a b a b", ROUND, sampling=COLD, stop=Stop(2))
    assert auto.stats.drafted == 0


class CheapDraft(Fixed):
    """Made one after another: first for the formula's checkpoint, then for the draft's."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        CheapDraft.made += 1
        self.scale = 1.0 if CheapDraft.made == 1 else 0.01

    def cost(self, rows: int) -> float:
        return self.scale


@pytest.mark.parametrize("sampling", [COLD, Sampling(seed=3), Sampling()])
def test_a_cheap_model_that_drafts_what_the_formula_says_saves_most_passes(
    tmp_path: Path, sampling: Sampling
) -> None:
    model, tokenizer = tiny_model(seed=4, context_length=512), tiny_tokenizer()
    twin = str(tmp_path / "twin")
    model.save_pretrained(twin)
    tokenizer.save_pretrained(twin)
    CheapDraft.made = 0
    with Engine.load(model, tokenizer=tokenizer) as engine:
        fly(engine, CheapDraft)
        before = passes_of(engine).count
        formula = f'supersede(prompted(model="{twin}"), M.top_k(12))'
        made = sum(
            len(engine.generate(text, formula, sampling=sampling, stop=TEXT).tokens)
            for text in ("d e", "f g h", "a", "b b", "c e a", "d d")
        )
        assert made > 60
        assert passes_of(engine).count - before < 0.6 * made


# -- one controller, without an engine -------------------------------------------------------------


class Pass:
    """Stands for the scorers of a pass."""


PASS = Pass()


class Text:
    """A text for which one proposer always expects the next tokens, each of one source."""

    def __init__(self, formula: str = "M", most: int = 15) -> None:
        plan = SimpleNamespace(formula=formula, rows=1)
        self.window: Any = SimpleNamespace(plan=plan, tokens_left=most, models=(), seen=[])
        self.window.draft = lambda length, by_models=False: None
        self.window.propose = self._propose
        self.rounds = self.left = self.chosen = self.drafted = 0

    def proposals(self, most: int) -> Iterator[tuple[Sequence[int], Sequence[Hashable]]]:
        self.chosen += 1
        yield [0] * most, ["proposer"] * most

    def scorer_of(self, term: Term) -> object:
        return PASS

    def due(self) -> bool:
        is_due = not self.left
        self.left = max(0, self.left - 1)
        return is_due

    def _propose(self, tokens: Sequence[int], sources: Sequence[Hashable]) -> None:
        self.drafted = len(tokens)


def rounds(
    controller: Controller, texts: Sequence[Text], count: int, acceptance: float = 0.0
) -> list[list[int]]:
    """How many tokens each text drafts in each round, of which such a share stands."""
    found = []
    for _ in range(count):
        for text in texts:
            text.drafted = 0
        due = [text for text in texts if text.due()]
        if due:
            controller.plan(cast(Any, due), [PASS], len(texts), len(texts))
        found.append([text.drafted for text in texts])
        for text in texts:
            if text.drafted:
                text.window.seen = [("proposer", acceptance)]
                controller.learn(text.window)
    return found


def test_drafts_that_are_always_accepted_become_as_long_as_possible() -> None:
    controller = Controller(Flat)
    assert rounds(controller, [Text()], 50, acceptance=1.0)[-1] == [15]


def test_nothing_is_drafted_at_acceptance_zero_but_a_try_now_and_then() -> None:
    controller, text = Controller(Mild), Text()
    rounds(controller, [text], 200)
    drafted = [lengths for (lengths,) in rounds(controller, [text], 4000)]
    assert set(drafted) == {0, 1}
    tries = [round_ for round_, length in enumerate(drafted) if length]
    assert len(tries) >= 5
    assert all(later - former >= EVERY for former, later in pairwise(tries))


def test_drafting_resumes_once_drafts_are_accepted_again() -> None:
    controller, text = Controller(Mild), Text()
    rounds(controller, [text], 300)
    assert sum(length for (length,) in rounds(controller, [text], 50)) <= 1
    rounds(controller, [text], 10_000, acceptance=1.0)
    assert rounds(controller, [text], 1, acceptance=1.0) == [[15]]


def test_models_draft_further_once_their_pass_of_two_tokens_was_timed() -> None:
    """A model first reads the last token that it drafted and the one that was added."""
    controller, text, draft_scorer = Controller(), Text(), Pass()
    drafted: list[tuple[int, bool]] = []
    text.window.models = ("small",)
    text.window.draft = lambda length, by_models=False: drafted.append((length, by_models))
    text.scorer_of = lambda term: draft_scorer  # type: ignore[method-assign]
    text.proposals = lambda most: iter(())  # type: ignore[method-assign]
    controller.times_of([PASS]).note(1, 1.0)
    rounds(controller, [text], 1)
    controller.times_of([draft_scorer]).note(2, 0.01)
    rounds(controller, [text], 1)
    assert drafted[0] == (1, True)  # to be timed
    assert drafted[1] > (1, True)


def test_nothing_is_drafted_where_each_row_costs_what_a_pass_costs() -> None:
    controller = Controller(Steep)
    drafted = rounds(controller, [Text()], 1000, acceptance=0.9)
    assert sum(map(sum, drafted)) <= 1000 // EVERY


def test_tries_of_many_texts_share_a_pass() -> None:
    controller, texts = Controller(Steep), [Text() for _ in range(20)]
    drafted = rounds(controller, texts, 2000)
    slower = [lengths for lengths in drafted if any(lengths)]
    assert 1 <= len(slower) <= 2000 // EVERY


def test_formulas_share_no_acceptance() -> None:
    controller, one, other = Controller(Mild), Text("a"), Text("b")
    rounds(controller, [one], 100, acceptance=0.0)
    assert rounds(controller, [other], 1) > [[0]]
    assert rounds(controller, [one], 1) == [[0]]


def test_choosing_drafts_takes_a_limited_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing takes 50 µs a text: too much for every round of many texts."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("marith.speculation.auto.time.perf_counter", lambda: clock.now)

    class Slow(Text):
        def proposals(self, most: int) -> Iterator[tuple[Sequence[int], Sequence[Hashable]]]:
            clock.now += 50e-6
            yield from super().proposals(most)

    class Fast(Fixed):
        def cost(self, rows: int) -> float:
            return 0.001 * rows

    for count, least in ((1, 4 / 50), (16, 0.7)):
        controller, texts = Controller(Fast), [Slow() for _ in range(count)]
        rounds(controller, texts, 500)
        before = sum(text.chosen for text in texts)
        rounds(controller, texts, 1000)
        share = 50e-6 * (sum(text.chosen for text in texts) - before) / (1000 * 0.001 * count)
        assert least * SHARE < share <= 1.1 * SHARE  # and no more seldom than that


def test_a_text_of_a_large_model_is_never_left_alone_for_long() -> None:
    controller, text = Controller(Steep), Text()
    rounds(controller, [text], 4 * EVERY)
    assert SHORT < LONG
    assert text.chosen >= 4 * EVERY // (SHORT + 1) - 1


# -- lengths, against exhaustive search ------------------------------------------------------------

chances = st.floats(0, 1)
seconds = st.floats(1e-6, 10)
falling = st.lists(chances, max_size=4).map(lambda own: list(accumulate(own, mul)))


def affine(start: float, slope: float) -> Cost:
    return lambda rows: start + slope * rows


def bent(start: float, slope: float, knee: int) -> Cost:
    """Flat up to the knee, then steep: convex."""
    return lambda rows: start + slope * max(0, rows - knee)


def stepped(start: float, step: float, width: int) -> Cost:
    """A staircase: neither convex nor concave."""
    return lambda rows: start + step * ((rows - 1) // width)


affine_costs = st.builds(affine, st.floats(0.1, 10), st.floats(0, 3))
any_costs = (
    affine_costs
    | st.builds(bent, st.floats(0.1, 10), st.floats(0, 9), st.integers(1, 20))
    | st.builds(stepped, st.floats(0.1, 10), st.floats(0, 9), st.integers(1, 8))
)


def rate(
    drafts: Sequence[Draft], chosen: Sequence[int], base: tuple[int, int], cost: Cost
) -> float:
    """Expected tokens a second of a choice, written out."""
    rows, made = base[0], float(base[1])
    for draft, length in zip(drafts, chosen, strict=True):
        made += sum(draft.chances[:length])
        rows += length * draft.rows
    drawn = [length for draft, length in zip(drafts, chosen, strict=True) if draft.seconds]
    return made / (cost(rows) + max(drawn, default=0) * max(d.seconds for d in drafts or [NONE]))


NONE = Draft((), 1)


def check_optimal(drafts: Sequence[Draft], base: tuple[int, int], cost: Cost) -> None:
    found, chosen = lengths(drafts, *base, cost)
    none = rate(drafts, [0] * len(drafts), base, cost)
    ranges = [range(len(draft.chances) + 1) for draft in drafts]
    best = max(rate(drafts, each, base, cost) for each in product(*ranges))
    assert rate(drafts, chosen, base, cost) == pytest.approx(found, rel=1e-9)
    if any(chosen):
        assert found == pytest.approx(best, rel=1e-9)
        assert best >= none * (1 + MARGIN) * (1 - 1e-9)
    else:
        assert best <= none * (1 + MARGIN) * (1 + 1e-9)


@given(st.lists(falling, max_size=3), st.integers(1, 3), st.integers(0, 9), any_costs)
def test_lengths_equal_exhaustive_search_where_rows_are_equal(
    drafted: list[list[float]], rows: int, more: int, cost: Cost
) -> None:
    drafts = [Draft(own, rows) for own in drafted]
    made = max(1, len(drafts))
    check_optimal(drafts, (rows * made + more, made), cost)


@given(st.lists(st.tuples(falling, st.integers(1, 5)), max_size=3), st.integers(3, 9), affine_costs)
def test_lengths_equal_exhaustive_search_where_the_cost_is_affine(
    drafted: list[tuple[list[float], int]], rows: int, cost: Cost
) -> None:
    check_optimal([Draft(*own) for own in drafted], (rows, 3), cost)


@given(falling, st.floats(0, 2), any_costs)
def test_a_models_draft_is_as_long_as_exhaustive_search_says(
    drafted: list[float], draft_seconds: float, cost: Cost
) -> None:
    check_optimal([Draft(drafted, 1, draft_seconds)], (1, 1), cost)


# -- the cost of passes ----------------------------------------------------------------------------

notes = st.lists(st.tuples(st.integers(1, 5000), seconds), min_size=1, max_size=60)


def curve(noted: Sequence[tuple[int, float]]) -> PassTimes:
    times = PassTimes()
    for rows, took in noted:
        times.note(rows, took)
    return times


@given(notes)
def test_a_larger_pass_never_costs_less(noted: list[tuple[int, float]]) -> None:
    times = curve(noted)
    costs = [times.cost(rows) for rows in range(1, 6000, 7)]
    known = [cost for cost in costs if cost is not None]
    assert known == sorted(known)
    assert known == costs[len(costs) - len(known) :]  # unknown below what was noted alone
    assert min([took for _, took in noted]) <= min(known, default=10.0)


@given(st.lists(seconds, min_size=1, max_size=30), st.integers(1, 16))
def test_a_number_of_rows_costs_the_median_of_its_last_nine(took: list[float], rows: int) -> None:
    assert curve([(rows, one) for one in took]).cost(rows) == median_low(took[-9:])


def test_the_cost_of_more_rows_is_estimated_from_a_step_and_a_prompt() -> None:
    times = curve([(4, 0.010), (208, 0.112)])
    assert times.cost(3) is None
    assert times.cost(8) == pytest.approx(0.012)
    assert times.cost(104) == pytest.approx(0.060)
    assert times.cost(208 * HOPED) == pytest.approx(0.112)  # until it is known
    assert times.cost(2 * 208 * HOPED) == pytest.approx(0.224)


def test_outliers_move_nothing_and_old_passes_are_forgotten() -> None:
    times = curve([(rows, rows / 1000) for rows in (1, 2, 3, 4) for _ in range(5)])
    for _ in range(3):
        times.note(2, 9.0)
    assert [times.cost(rows) for rows in (1, 2, 3, 4)] == [0.001, 0.002, 0.003, 0.004]
    times.note(5, 9.0)
    times.note(6, 0.006)
    assert times.cost(5) == 0.006  # one slow pass costs no more than a larger one
    assert curve([(3, 1.0)] * 50 + [(3, 0.1)] * 5).cost(3) == 0.1
