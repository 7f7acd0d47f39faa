"""Covers that are read ahead change what a text costs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from support.byte_models import CORNERS, END_OF_BYTES, byte_model, hash_model
from support.checked_engine import wait_until_idle
from support.covered_texts import new_text
from support.held_passes import nan_at_token, scorer_of
from support.pauses import Pause, pausing

from marith import Engine, Grammar, Prompted, Request, Sampling, Stop
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.questions import Span
from marith.scoring.terms.over_bytes import byte_scorer
from marith.scoring.terms.over_bytes.covers import CoveredText

TEXT = "the cat and then the other cat sat on that mat"
PROMPT, M = "Tell me about rivers.", Prompted()


class Reader:
    """A covered text, and how often and about how many covers its model was asked."""

    def __init__(self, kind: str, most: int) -> None:
        self.model, self.text = hash_model(kind), new_text(kind)
        self.most, self.calls, self.covers = most, 0, 0

    def rows(self, data: Sequence[int], count: int) -> np.ndarray:
        while (wanted := self.text.wanted(data, count)) is not None:
            asked = [wanted, *self.text.covers_ahead(data, self.most)]
            assert len(set(asked)) == len(asked) <= 1 + self.most
            for tokens in asked:
                self.text.receive(tokens, torch.from_numpy(self.model.after(tokens)).log())
            assert len(self.text._answers) <= 1 + self.most
            self.calls, self.covers = self.calls + 1, self.covers + len(asked)
        return np.stack([row.numpy() for row in self.text.rows(count)])


@example("whole characters", [b"\xc3b"], 4)
@example("whole characters", [b"\xc3\xc3"], 4)
@given(
    st.sampled_from(sorted(CORNERS)),
    st.lists(st.text(max_size=6).map(str.encode) | st.binary(max_size=3), max_size=4),
    st.integers(1, 7),
)
def test_distributions_are_equal_with_and_without_covers_read_ahead(
    kind: str, parts: list[bytes], most: int
) -> None:
    data = [*b"the ".join(parts), END_OF_BYTES, *b"then"]
    alone, ahead, growing = Reader(kind, 0), Reader(kind, most), Reader(kind, most)
    wanted = alone.rows(data, len(data) + 1)
    np.testing.assert_array_equal(ahead.rows(data, len(data) + 1), wanted)
    each = [growing.rows(data[:end], 1)[0] for end in range(len(data) + 1)]
    np.testing.assert_array_equal(np.stack(each), wanted)
    # A text that goes on otherwise.
    changed = [*data[: len(data) // 2], *b"the cat"]
    np.testing.assert_array_equal(growing.rows(changed, 1), alone.rows(changed, 1))


@pytest.mark.parametrize("kind", ["byte level", "pieces"])
def test_a_given_text_is_read_in_few_calls_and_no_cover_twice(kind: str) -> None:
    alone, ahead = Reader(kind, 0), Reader(kind, 4)
    for reader in (alone, ahead):
        reader.rows(TEXT.encode(), len(TEXT) + 1)
    assert ahead.covers == alone.covers == alone.calls
    assert ahead.calls == -(-alone.calls // 5)


def test_all_covers_of_a_place_are_asked_at_once() -> None:
    """A text that was rolled back, and goes on otherwise, needs all covers of its last place."""
    reader = Reader("byte level", 7)
    reader.rows(b"the cat", 1)
    before, place = reader.calls, reader.text._places[len(b"the ca")]
    assert len(place.covers) > 1
    reader.rows(b"the cab", 1)
    assert reader.calls == before + 1


@pytest.fixture(scope="module")
def pocket() -> Iterator[Engine]:
    with Engine.load("pocket", over="bytes") as engine:
        yield engine


@contextmanager
def watched(engine: Engine, see: Callable[[Sequence[Span]], Any]) -> Iterator[None]:
    """Show the questions of each call of the runner to a function."""
    runner = scorer_of(engine).runner
    ask = runner.ask

    def asked(questions: Sequence[Span]) -> Any:
        see(questions)
        return ask(questions)

    runner.ask = asked
    try:
        yield
    finally:
        del runner.ask


def test_a_text_takes_fewer_passes_than_bytes(
    pocket: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(PROMPT, sampling=Sampling(seed=1), stop=Stop(80))
    ahead = pocket.submit(request).result(60)
    monkeypatch.setattr(byte_scorer, "AHEAD", 0)
    alone = pocket.submit(request).result(60)
    assert ahead.tokens == alone.tokens
    assert alone.stats.passes >= len(alone.tokens)
    assert ahead.stats.passes < 0.6 * len(ahead.tokens)


def test_scores_are_equal_and_take_fewer_passes(
    pocket: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    text = " A river is water that goes to the sea."
    with watched(pocket, lambda questions: calls.append(len(questions))):
        ahead = pocket.score(PROMPT, text, "M - 0.2*x", {"x": "Be brief."})
        few = len(calls)
        monkeypatch.setattr(byte_scorer, "AHEAD", 0)
        alone = pocket.score(PROMPT, text, "M - 0.2*x", {"x": "Be brief."})
    assert ahead == pytest.approx(alone, abs=1e-5)
    # The first call reads the prompts, each in one lane.
    assert calls[0] == 2
    assert few < 0.5 * (len(calls) - few)


@pytest.mark.parametrize(("together", "most"), [(1, 5), (2, 6), (3, 6), (4, 4), (7, 7)])
def test_few_covers_are_read_in_a_call(pocket: Engine, together: int, most: int) -> None:
    scorer, calls = scorer_of(pocket), []
    texts = [f"{PROMPT} {i}" for i in range(together)]
    lanes = [scorer.open([M], tuple(scorer.vocabulary.encode(text)), None, None) for text in texts]
    with watched(pocket, lambda questions: calls.append(len(questions))):
        for end in range(len(TEXT)):
            data = [*TEXT.encode()[:end]]
            while None in scorer.score([Span(M, lane, data) for lane in lanes]):
                pass
    for lane in lanes:
        scorer.release(lane)
    # The first call reads the prompts, each in one lane.
    assert (calls[0], max(calls)) == (together, most)


def test_terms_of_one_lane_share_the_covers(
    pocket: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes: list[int] = []
    text, terms = " A river is water.", {"early": Prompted(exit_layer=1)}
    with watched(pocket, lambda asked: lanes.append(len({span.lane for span in asked}))):
        ahead = pocket.score(PROMPT, text, "M + 0.1*early", terms)
    assert max(lanes) == 5
    monkeypatch.setattr(byte_scorer, "AHEAD", 0)
    assert ahead == pytest.approx(pocket.score(PROMPT, text, "M + 0.1*early", terms), abs=1e-5)


def test_a_paused_text_goes_on(pocket: Engine) -> None:
    request = Request(PROMPT, sampling=Sampling(seed=2), stop=Stop(40))
    alone = pocket.submit(request).result(60).tokens
    for drops in (False, True):
        with pausing(pocket, [Pause(frozenset({0}), drops=drops), Pause(frozenset())] * 30):
            assert pocket.submit(request).result(60).tokens == alone
            wait_until_idle(pocket)


def test_nan_in_covers_that_no_text_needs_changes_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = byte_model("byte level")
    asked = [Request(prompt, "M", {}, Sampling(seed=5), Stop(30)) for prompt in ("the", "that cat")]
    needed: set[int] = set()
    guessed: set[int] = set()
    with Engine.load(model.model, tokenizer=model.tokenizer, over="bytes") as engine:
        with watched(engine, lambda spans: guessed.update(*(span.tokens for span in spans))):
            alone = [engine.submit(one).result(30).tokens for one in asked]
        with (
            monkeypatch.context() as patch,
            watched(engine, lambda spans: needed.update(*(span.tokens for span in spans))),
        ):
            patch.setattr(byte_scorer, "AHEAD", 0)
            assert [engine.submit(one).result(30).tokens for one in asked] == alone
    assert guessed - needed
    for token in sorted(guessed - needed):
        with Engine.load(model.model, tokenizer=model.tokenizer, over="bytes") as engine:
            hook = nan_at_token(engine, token)
            assert [engine.submit(one).result(30).tokens for one in asked] == alone
            hook.remove()


def test_lanes_that_read_ahead_are_released(pocket: Engine) -> None:
    runner, held = scorer_of(pocket).runner, []
    with watched(pocket, lambda _: held.append(runner.lanes.busy)):
        pocket.submit(Request(PROMPT, stop=Stop(40))).result(60)
    assert max(held) == 1
    wait_until_idle(pocket)
    assert runner.lanes.busy == 0


def test_lanes_that_read_ahead_are_released_after_an_error(pocket: Engine) -> None:
    runner = scorer_of(pocket).runner

    def fail(questions: Sequence[Span]) -> None:
        if len(questions) > 1:
            for question in questions:
                runner.lanes.take(question.lane, question.lane.key, question.lane.prompt)
            raise RuntimeError("a cable was pulled")

    with watched(pocket, fail), pytest.raises(Exception, match="a cable was pulled"):
        pocket.submit(Request(PROMPT, stop=Stop(40))).result(60)
    wait_until_idle(pocket)
    assert runner.lanes.busy == 0


def test_no_cover_is_longer_than_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    model, lengths = byte_model("byte level"), []
    # Each of these bytes is a token.
    monkeypatch.setattr(CoveredText, "_likeliest_bytes", lambda *_: b"QQQQQQ")
    with (
        Engine.load(model.model, tokenizer=model.tokenizer, over="bytes", context_length=60) as one,
        watched(one, lambda asked: lengths.extend(len(span.tokens) for span in asked)),
    ):
        request = Request("Q", stop=Stop(None), grammar=Grammar.regex("Q{90}"))
        assert one.submit(request).result(60).finish_reason == "length"
    assert max(lengths) == 60


def test_memory_is_counted_for_lanes_that_read_ahead(pocket: Engine) -> None:
    scorer = scorer_of(pocket)
    # A prompt is shared, and an answer is not.
    long_prompt = LaneText.of("key", range(1000), more=5)
    long_answer = LaneText.of("key", range(10), more=900)
    texts = [long_answer, long_prompt]
    assert scorer.memory(texts) == scorer.runner.memory([*texts, *[long_answer] * 4])
    assert scorer.memory([]) == 0


def test_nothing_is_read_ahead_beside_captured_passes(pocket: Engine) -> None:
    own, text = scorer_of(pocket), LaneText.of("key", range(10))
    runner: Any = copy(own.runner)
    runner.captured = object()
    scorer = byte_scorer.ByteScorer(own.checkpoint, runner)
    assert own._reads_ahead
    assert not scorer._reads_ahead
    assert scorer.memory([text]) == runner.memory([text])
