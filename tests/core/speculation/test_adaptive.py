"""Speculation that adapts: it drafts where that pays, and learns where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from marith import Engine, Sampling, Stop
from marith.speculation.controller.adaptive import Controller
from marith.speculation.controller.latency import PassTimes
from marith.testing import tiny_model, tiny_tokenizer

# at temperature 0 it says the same again and again
ROUND = "0.0001*M + ngram(texts=['a b c d e f a b c d e f a b c d e f'], order=3)"
COLD = Sampling(temperature=0.0)
TEXT = Stop(120)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.load(tiny_model(seed=4, context_length=512), tokenizer=tiny_tokenizer()) as engine:
        yield engine


class Fixed(PassTimes):
    """A machine on which the first token of a pass costs one, and each more so much."""

    least = 1  # type: ignore[assignment]  # known from the start
    more = 0.0

    def cost(self, tokens: int) -> float:
        return 1.0 + self.more * (tokens - 1)


class Flat(Fixed):
    """More tokens cost nothing more."""


class Mild(Fixed):
    """Every further token costs a little."""

    more = 0.03


class Steep(Fixed):
    """Every token costs as much as the first."""

    more = 1.0


def fly(engine: Engine, times: type[PassTimes]) -> None:
    engine._thread.scheduler.controller = Controller(times)


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


def test_nothing_is_drafted_where_every_token_costs_what_a_pass_costs(engine: Engine) -> None:
    fly(engine, Steep)
    auto = engine.generate("a b c", ROUND, sampling=COLD, stop=TEXT)
    assert auto.stats.drafted <= 3  # what is tried now and then all the same


def test_nothing_is_drafted_before_a_plain_step_has_been_timed(engine: Engine) -> None:
    auto = engine.generate("a b a b a b a b", ROUND, sampling=COLD, stop=Stop(2))
    assert auto.stats.drafted == 0


def test_drafts_that_never_stand_are_given_up(engine: Engine) -> None:
    fly(engine, Mild)
    shares = []
    for seed in range(20):
        hot = Sampling(temperature=50.0, seed=seed)
        stats = engine.generate("a b c", "M + uniform()", sampling=hot, stop=TEXT).stats
        shares.append(stats.drafted / max(1, stats.tokens))
    assert shares[0] > 0.3  # at first it is believed in
    assert max(shares[-5:]) < 0.2 * shares[0]


def test_what_was_learnt_of_one_formula_is_not_believed_of_another(engine: Engine) -> None:
    fly(engine, Mild)
    hot = Sampling(temperature=50.0, seed=1)
    for _ in range(10):
        engine.generate("a b c", "M + uniform()", sampling=hot, stop=TEXT)
    auto = engine.generate("a b c", ROUND, sampling=COLD, stop=TEXT)
    assert auto.stats.passes_per_token < 0.4


class CheapDraft(Fixed):
    """Made one after another: first for the formula's checkpoint, then for the draft's."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        CheapDraft.made += 1
        self.scale = 1.0 if CheapDraft.made == 1 else 0.01

    def cost(self, tokens: int) -> float:
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
        own = engine._registry.base.runner
        before = own.passes.count
        formula = f'supersede(prompted(model="{twin}"), M.top_k(12))'
        made = sum(
            len(engine.generate(text, formula, sampling=sampling, stop=TEXT).tokens)
            for text in ("d e", "f g h", "a", "b b", "c e a", "d d")
        )
        assert made > 60
        assert own.passes.count - before < 0.6 * made
