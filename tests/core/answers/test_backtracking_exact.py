"""With a ban, each text has its exact probability, computed by recursion over all texts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from typing import Any, TypeAlias

import pytest
import torch
from support.held_passes import hold_passes
from support.pair_draws import p_value_or_zero
from support.reference import Reference, first_banned
from support.small_engine import FlatTimes, assume_times

from marith import Ban, Engine, NGram, Plan, Request, RequestError, Sampling, Stop
from marith.decoding.sampling import warp
from marith.engine.jobs import generation
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import tiny_model, tiny_tokenizer

DRAWS, LENGTH, END = 300, 3, 1
NOTHING = -1  # where a text has gone back to that cannot be begun: its caller gets an error

Text: TypeAlias = tuple[int, ...]
Shares: TypeAlias = dict["Text | int", float]  # texts, and places that are gone back to


@dataclass(frozen=True)
class Small:
    """An engine over eight tokens, and the reference that specifies it."""

    engine: Engine
    reference: Reference
    _rows: dict[tuple[str, Text], torch.Tensor] = field(default_factory=dict)

    def row(self, request: Request, tokens: Text) -> torch.Tensor:
        """The composed log-probabilities [1, vocab] after some tokens; a formula has one prompt."""
        key = str(request.formula), tokens
        if key not in self._rows:
            self._rows[key] = self.reference.distribution(request, list(tokens))
        return self._rows[key].clone()

    def draws(self, request: Request, seeded: bool) -> tuple[Counter[Text | int], int, int]:
        """How often each text came, and how many rewinds and accepted drafts there were.

        All requests are there before their first step, so that each run is the same.
        """
        sampling = request.sampling
        with hold_passes(self.engine) as begun:
            first = self.engine.submit(Request("a", sampling=Sampling(seed=0), stop=Stop(1)))
            begun.wait(20)
            tickets = [
                self.engine.submit(replace(request, sampling=replace(sampling, seed=seed)))
                for seed in (range(DRAWS) if seeded else [None] * DRAWS)
            ]
        assert first.result(120).usage
        texts: Counter[Text | int] = Counter()
        rewinds = accepted = 0
        for ticket in tickets:
            try:
                one = ticket.result(120)
            except RequestError:
                texts[NOTHING] += 1
                continue
            texts[(*one.tokens, *[END] * (one.finish_reason == "stop"))] += 1
            rewinds += one.stats.rewinds
            accepted += one.stats.accepted
        return texts, rewinds, accepted


@pytest.fixture(scope="module")
def loaded() -> Iterator[Small]:
    model, tokenizer = tiny_model(vocab=8, seed=11, sharpness=3.0), tiny_tokenizer(tuple("abcdef"))
    with Engine.load(model, tokenizer=tokenizer, max_lanes=192) as engine:
        yield Small(engine, Reference({None: (model, Vocabulary(tokenizer, 8))}))


@pytest.fixture
def small(loaded: Small, monkeypatch: pytest.MonkeyPatch) -> Small:
    """It drafts all it can; requests without a seed have numbers that are the same in each run."""
    monkeypatch.setattr(generation, "fresh_seed", partial(next, count(10**6)))
    assume_times(loaded.engine, FlatTimes, monkeypatch)
    return loaded


def closed_form(small: Small, request: Request) -> Shares:
    """The probability of every text: a token is drawn; a banned word takes the text back.

    After a text comes one that is finished, or a place that is gone back to: this one, which goes
    on without the token that stood there; or one before it, which is passed on.
    """

    @cache
    def after(tokens: Text, without: frozenset[int]) -> Shares:
        row = small.row(request, tokens)
        row[:, list(without)] = -math.inf
        if not bool((row > -math.inf).any()):
            return {len(tokens) - 1: 1.0}
        shares = warp(torch.log_softmax(row, dim=-1), request.sampling)[0].double().exp()
        total: Shares = defaultdict(float)
        for token, p in enumerate(shares.tolist()):
            for end, q in come_to((*tokens, token)).items() if p else ():
                here = end == len(tokens)
                again = after(tokens, without | {token}) if here else {end: 1.0}
                for finish, r in again.items():
                    total[finish] += p * q * r
        return dict(total)

    def come_to(tokens: Text) -> Shares:
        assert request.ban is not None
        spelt = [small.reference.vocabulary.decode([token]) for token in tokens]
        ended = tokens[-1] == END or len(tokens) == LENGTH
        at = first_banned(request.ban, "".join(spelt), ended)
        if at is None:
            return {tokens: 1.0} if ended else after(tokens, frozenset())
        return {next(i for i in range(len(spelt)) if len("".join(spelt[: i + 1])) > at): 1.0}

    return after((), frozenset())


def asked(how: Any, dead_ends: bool = False) -> Request:
    """Three terms, and words of two tokens whose first is likely; or places where none is left."""
    formula, prompt = "supersede(A, x - 0.6*y + M)", "c e d c d c f b a"
    words = ["cc", "cb", "a", "ecd"]
    if dead_ends:
        formula, prompt, words = "x.top_k(2) - 0.6*y + M", "e b e d a b a d b", ["cc", "fc"]
    terms = {
        "x": "b c",
        "y": "d",
        "A": NGram(texts=("d b c", "f b c", "c d c", "d f c")),
    }
    ban = Ban(words, whole_words=False)
    return Request(prompt, formula, terms, Sampling(1.2), Stop(LENGTH), how, ban=ban)


LATE = Plan.factors({"y": 3})


@pytest.mark.parametrize(
    ("request_", "seeded"),
    [
        (asked(None), True),
        (asked("auto"), False),
        (asked(LATE), True),
        (asked(LATE, dead_ends=True), True),
    ],
    ids=["nothing drafted", "auto without a seed", "factors", "factors and dead ends"],
)
def test_texts_have_the_probabilities_of_the_exact_recursion(
    small: Small, request_: Request, seeded: bool
) -> None:
    expected = closed_form(small, request_)
    assert math.fsum(expected.values()) == pytest.approx(1, abs=1e-6)
    texts, rewinds, accepted = small.draws(request_, seeded)
    assert rewinds > DRAWS / 4
    assert request_.speculation is None or accepted > 10
    assert ("top_k" in str(request_.formula)) == (expected.get(NOTHING, 0.0) > 0.05)
    assert p_value_or_zero(texts, expected) > 1e-3
    free = closed_form(small, replace(request_, ban=Ban(["f"], whole_words=False)))
    assert p_value_or_zero(texts, free) < 1e-6
