"""Requests run at once while there is memory for them; others wait, are paused or refused."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.checked_engine import wait_until_idle
from support.held_passes import becomes_true, endless_engine, hold_passes

import marith
from marith import Engine, Request, Sampling, Stop
from marith.engine import admission, loop
from marith.engine.admission import RESERVE, Admission, memory_of
from marith.engine.prepare import Prepared
from marith.request.limits import Limits
from marith.scoring import cache_limit, choose_runner
from marith.scoring.lane_text import BLOCK, COPIED, LaneText, own_lengths
from marith.scoring.scorer import bytes_needed
from marith.testing import cached_bytes, lanes_in_use

TERMS = {"x": "q r s t"}
blocks = st.lists(st.sampled_from([[1] * 10, [2] * 40, [1] * 64, [2] * 200]), max_size=4)
prompts = blocks.map(lambda parts: [token for part in parts for token in part])


def asked(prompt: str, tokens: int = 40) -> Request:
    return Request(prompt, "2*x - M", TERMS, Sampling(seed=1), Stop(tokens), speculation=None)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with endless_engine(512) as engine:
        yield engine


def plenty() -> int:
    """Room for every text."""
    return 1 << 60


def whole(engine: Engine, *requests: Request) -> int:
    """The bytes of these requests, with texts of maximal length."""
    opened = [engine.open(one) for one in requests]
    return memory_of([(one, one.budget.more) for one in opened])


@cache
def opened(engine: Engine, count: int) -> Prepared:
    """A request for so many tokens, ready to run."""
    return engine.open(asked("a b c", count))


def standing(prepared: Prepared) -> Any:
    """A job that takes no step; a test says what its text holds."""
    errors: list[BaseException] = []
    return SimpleNamespace(
        prepared=prepared,
        tokens_held=0,
        paused=0,
        abandoned=False,
        errors=errors,
        fail=errors.append,
        convert=lambda: None,
    )


def most_at_once(engine: Engine, requests: Sequence[Request]) -> tuple[int, list[str]]:
    """How many of these requests ever took a step together, and their texts."""
    together, plain = [0], loop.step

    def counted(turns: Sequence[Any], *given: Any, **options: Any) -> None:
        together.append(sum(not turn.job.done for turn in turns))
        plain(turns, *given, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "step", counted)
        with hold_passes(engine):
            tickets = [engine.submit(one) for one in requests]
        texts = [ticket.result(60).text for ticket in tickets]
    return max(together), texts


@given(st.lists(st.tuples(st.sampled_from("ab"), prompts, st.integers(0, 3)), max_size=8))
def test_common_prompts_are_counted_once(texts: list[tuple[str, list[int], int]]) -> None:
    counted = sum(own_lengths([LaneText.of(*text) for text in texts]))
    prefixes = {(w, *prompt[: i + 1]) for w, prompt, _ in texts for i in range(len(prompt))}
    least = len(prefixes) + sum(more for _, _, more in texts)
    assert least <= counted <= least + (BLOCK + COPIED) * len(texts)


@given(st.lists(st.tuples(st.sampled_from("ab"), prompts, st.integers(0, 3)), min_size=1))
def test_more_texts_never_need_less_memory(texts: list[tuple[str, list[int], int]]) -> None:
    planned = [LaneText.of(*text) for text in texts]
    assert sum(own_lengths(planned[:-1])) <= sum(own_lengths(planned))


def test_copied_prefixes_count_for_each_text() -> None:
    prompt = "a b c d e f g h i j " * 5  # of 50 tokens, which are too few to be shared
    requests = [asked(f"{prompt} {letter}", 2) for letter in "klmnopqr"]
    with endless_engine(512) as engine:
        engine.generate("a", "2*x - M", TERMS, stop=Stop(1))
        expected = whole(engine, *requests)
        most_at_once(engine, requests)
        wait_until_idle(engine)
        assert cached_bytes(engine) <= expected


def test_texts_of_one_rectangle_are_each_as_long_as_the_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose_runner, "_hands_keys_on", lambda _: False)
    with endless_engine(512) as engine:
        short, long = (engine.open(asked("a", 1)), 1), (engine.open(asked("a b", 400)), 400)
        alone, both = memory_of([short]) + memory_of([long]), memory_of([short, long])
        assert alone < both
        limits = Limits(cache_bytes=alone)
        assert Admission(limits, plenty).fitting([short, long], 0) == 1
        assert Admission(limits, plenty).fitting([long, short], 1) == 1
        assert Admission(limits, plenty).fitting([long, short], 2) == 1


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(0, 2_000_000),
)
def test_as_many_of_the_first_requests_run_as_fit_together(
    engine: Engine, counts: list[int], running: int, most: int
) -> None:
    together = [(opened(engine, count), count) for count in counts]
    found = Admission(Limits(cache_bytes=most), plenty).fitting(together, running)
    fits = [memory_of(together[: n + 1]) <= most for n in range(len(together))]
    assert found == max(1, fits.index(False) if False in fits else len(together))


def test_many_that_share_a_long_prompt_are_counted_quickly() -> None:
    prompt = [*range(24_000)]
    texts = [LaneText.of("w", [*prompt, i], 100) for i in range(256)]
    begun = time.perf_counter()
    assert sum(own_lengths(texts)) < 24_000 + 256 * 300
    assert time.perf_counter() - begun < 2


def test_many_that_share_a_long_prompt_are_not_counted_at_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []

    def count(pairs: Any) -> int:
        texts = [*pairs]
        if len(texts) > 1:
            counted.append(len(texts))
        return bytes_needed(texts)

    monkeypatch.setattr(admission, "bytes_needed", count)
    prompt, other = (" ".join(Random(i).choices("abcdefgh", k=24_000)) for i in range(2))
    steps = 5 * RESERVE
    with endless_engine(30_000) as engine:
        prepared = engine.open(Request(prompt, stop=Stop(4000), speculation=None))
        ours = [standing(prepared) for _ in range(256)]
        late = standing(engine.open(Request(other, stop=Stop(1), speculation=None)))
        memory = memory_of([(prepared, steps + 14)] * 256)
        waits = Admission(Limits(max_lanes=1000, cache_bytes=memory), plenty)
        counted.clear()
        for job in ours:
            waits.add(job)
        begun = time.perf_counter()
        for step in range(steps):
            assert waits.admit()
            if step == 3 * RESERVE + 10:
                waits.add(late)
            for job in ours:
                job.tokens_held += 1
        assert len(waits.active) == 256
        assert [*waits.waiting] == [late]
        assert waits.paused == 0
        assert len(counted) == 7  # once to begin, four times for what outgrew, twice for the late
        assert time.perf_counter() - begun < 5


def test_an_error_in_counting_fails_the_request_and_ends_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> int:
        raise MemoryError("counted wrongly")

    with endless_engine(512, cache_bytes=1) as engine:
        alone = engine.submit(asked("a")).result(60).text
        for name in ("fitting", "refusal"):
            with monkeypatch.context() as patched:
                patched.setattr(Admission, name, broken)
                with pytest.raises(marith.ModelError, match="MemoryError: counted wrongly"):
                    engine.submit(asked("a")).result(60)
            assert engine.submit(asked("a")).result(60).text == alone
        wait_until_idle(engine)


@pytest.mark.parametrize("broken", [0, 1, 3, "together"])
def test_an_error_in_counting_fails_the_request_that_causes_it(
    engine: Engine, broken: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = ["a", "b", "c", "a " * 20]
    jobs = [standing(engine.open(asked(prompt, 400))) for prompt in prompts]
    cannot = () if broken == "together" else jobs[int(broken)].prepared.texts(0)
    begun = memory_of([(job.prepared, RESERVE) for job in jobs[:3]])

    def count(pairs: Any) -> int:
        texts = [*pairs]
        of_job = {text.prompt for _, text in texts} & {text.prompt for _, text in cannot}
        if len(texts) > 2 if broken == "together" else of_job:
            raise MemoryError("counted wrongly")
        return bytes_needed(texts)

    waits = Admission(Limits(cache_bytes=begun), plenty)
    for job in jobs:
        waits.add(job)
    assert waits.admit()
    assert [turn.job for turn in waits.active] == jobs[:3]
    monkeypatch.setattr(admission, "bytes_needed", count)
    grown = jobs[:3]
    if broken == 3:
        waits.remove(jobs[:1])
        grown = jobs[3:]
    for job in grown:
        job.tokens_held = RESERVE + 1
    assert waits.admit()
    failed = jobs[2 if broken == "together" else int(broken)]
    assert [job for job in jobs if job.errors] == [failed]
    assert isinstance(failed.errors[0], marith.ModelError)
    # The other jobs go on, and the next step looks at the jobs that wait.
    assert not waits._full
    assert waits.jobs == [job for job in jobs[broken == 3 :] if job is not failed]
    assert waits.admit()


@pytest.mark.parametrize("tokens", [3, 150])
def test_a_text_holds_no_more_than_was_expected_of_it(tokens: int) -> None:
    with endless_engine(512) as engine:
        expected = whole(engine, asked("a b c", tokens))
        engine.generate("a b c", "2*x - M", TERMS, stop=Stop(tokens), speculation=None)
        wait_until_idle(engine)
        assert 0.8 * expected < cached_bytes(engine) <= expected


def test_requests_wait_for_memory_and_their_texts_stay_the_same() -> None:
    requests = [asked(f"{letter} b c d e f g h") for letter in "klmnop"]
    with endless_engine(512) as engine:
        memory = whole(engine, requests[0])
        texts = [engine.submit(one).result(60).text for one in requests]
    with endless_engine(512, cache_bytes=2 * memory + memory // 2) as engine:
        most, again = most_at_once(engine, requests)
        assert most == 2
        assert again == texts
        wait_until_idle(engine)


def test_shared_prefixes_leave_memory_for_more_requests() -> None:
    prompt = "a b c d e f g h i j k l m n o p q r s t " * 10
    requests = [asked(f"{prompt} {letter}", 5) for letter in "klmnop"]
    with endless_engine(512) as engine:
        memory = whole(engine, requests[0])
    with endless_engine(512, cache_bytes=2 * memory) as engine:
        most, _ = most_at_once(engine, requests)
        assert most > 2


def test_a_request_that_cannot_fit_is_refused_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with endless_engine(512, cache_bytes=1) as engine:
        small = whole(engine, asked("a", 2))
        monkeypatch.setattr(cache_limit, "free_memory", lambda device: small)
        tickets = [engine.submit(asked("a", count)) for count in (2, 400, 2)]
        assert tickets[0].result(60).text == tickets[2].result(60).text
        with pytest.raises(
            marith.RequestError,
            match=r"may need \d+ kB for keys and values of up to 40\d tokens, and [\d.]+ k?B are "
            r"free: write a smaller max_tokens",
        ):
            tickets[1].result(60)
        wait_until_idle(engine)
        scores = engine.score("a", [3, 4], "2*x - M", TERMS)
        assert len(scores) == 2


def test_idle_caches_are_dropped_for_a_request_that_needs_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with endless_engine(512) as engine:
        [own, others] = [whole(engine, asked("a", n)) for n in (100, 60)]
    with endless_engine(512, cache_bytes=own - 1) as engine:
        for letter in "bcdefg":
            engine.submit(asked(letter, 60)).result(60)
        wait_until_idle(engine)
        kept = cached_bytes(engine)
        assert kept > others
        monkeypatch.setattr(
            cache_limit, "free_memory", lambda device: own - kept + cached_bytes(engine) // 2
        )
        held, plain = [], loop.step

        def noted(turns: Sequence[Any], *given: Any, **options: Any) -> None:
            plain(turns, *given, **options)
            held.append(cached_bytes(engine))

        with monkeypatch.context() as patched:
            patched.setattr(loop, "step", noted)
            assert engine.submit(asked("a", 100)).result(60).text
        assert 0.8 * own < max(held) <= own
        monkeypatch.setattr(cache_limit, "free_memory", lambda device: own - 2 * kept)
        wait_until_idle(engine)
        kept = cached_bytes(engine)
        with pytest.raises(marith.RequestError, match="are free"):
            engine.submit(asked("a", 100)).result(60)
        assert cached_bytes(engine) == kept  # it would not have been enough


def test_by_default_half_of_the_free_memory_is_for_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marith.engine.engine.free_memory", lambda device: 5_000_000)
    with endless_engine(512) as engine:
        assert engine.limits.cache_bytes == 2_500_000
    with endless_engine(512, cache_bytes=7) as engine:
        assert engine.limits.cache_bytes == 7


@pytest.mark.parametrize(("own", "level"), [(None, "INFO"), (5_000_001, "WARNING")])
def test_a_second_engine_on_a_device_says_what_memory_is_free(
    own: int | None, level: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("marith.engine.engine.free_memory", lambda device: 5_000_000)
    monkeypatch.setattr("marith.engine.engine._engines", WeakSet())
    options = {} if own is None else {"cache_bytes": own}
    with caplog.at_level(logging.INFO), endless_engine(512, cache_bytes=2_000_000):
        assert "engines are loaded" not in caplog.text
        with endless_engine(512, **options):
            pass
        with endless_engine(512, **options):
            pass  # the engine before it is closed, and counts no more
    said = [one for one in caplog.records if "engines are loaded" in one.msg]
    takes = "2.5 MB" if own is None else "5 MB. Set a smaller cache_bytes for each of the engines"
    assert {one.levelname for one in said} == {level}
    assert [one.getMessage() for one in said] == [
        "2 engines are loaded on cpu. 5 MB of its memory are free, and this engine's caches may "
        f"take {takes}"
    ] * 2


def test_a_request_that_waits_for_memory_may_be_cancelled() -> None:
    with endless_engine(512, cache_bytes=1) as engine:
        running = engine.submit(asked("a", 400))
        waiting = engine.submit(asked("b", 400))
        waiting.cancel()
        after = engine.submit(asked("c", 2))
        running.cancel()
        assert after.result(60).text
        assert threading.active_count() < 50


def test_more_requests_run_than_their_whole_texts_would_allow() -> None:
    requests = [asked(f"{letter} b c", 100) for letter in "klmnop"]
    with endless_engine(512) as engine:
        memory = whole(engine, requests[0])
        texts = [engine.submit(one).result(60).text for one in requests]
    with endless_engine(512, cache_bytes=9 * memory // 2) as engine:
        most, again = most_at_once(engine, requests)
        assert most == 6
        assert again == texts
        assert engine.status().paused > 0
        wait_until_idle(engine)
        assert lanes_in_use(engine) == 0


def test_requests_end_in_the_order_of_their_arrival_and_the_first_is_never_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = [asked(f"{letter} b c", 130) for letter in "klmnopqr"]
    ended: list[Any] = []
    plain = loop.step

    def noted(turns: Sequence[Any], *given: Any, **options: Any) -> None:
        plain(turns, *given, **options)
        ended.extend(turn.job._request.prompt for turn in turns if turn.job.done)

    monkeypatch.setattr(loop, "step", noted)
    with endless_engine(512) as engine:
        memory = whole(engine, *requests[:2])
    with endless_engine(512, cache_bytes=memory) as engine:
        with hold_passes(engine):
            tickets = [engine.submit(one) for one in requests]
        counts = [ticket.result(60).stats.paused for ticket in tickets]
        assert counts[0] == 0
        assert sum(counts) == engine.status().paused > 0
    assert ended == [one.prompt for one in requests]


@contextmanager
def one_paused(first: Request, last: Request, **limits: int) -> Iterator[tuple[Engine, Any, Any]]:
    """Yield an engine and two tickets, of which the second is paused until the first ends."""
    with endless_engine(4000, **limits) as engine:
        cache_bytes = whole(engine, replace(first, stop=Stop(3 * RESERVE)))
    with endless_engine(4000, cache_bytes=cache_bytes, **limits) as engine:
        with hold_passes(engine):
            tickets = [engine.submit(first), engine.submit(last)]
        assert becomes_true(lambda: engine.status().paused == 1)
        yield engine, *tickets


def test_a_paused_request_may_be_cancelled_and_leaves_nothing() -> None:
    with one_paused(asked("a", 3000), asked("b", 3000)) as (engine, first, last):
        assert engine.status().waiting == 1
        last.cancel()
        assert becomes_true(lambda: engine.status().waiting == 0)
        assert engine.status().running == 1
        first.cancel()
        wait_until_idle(engine)
        assert lanes_in_use(engine) == 0


def test_the_deadline_of_a_paused_request_runs_on() -> None:
    late = replace(asked("b", 3000), timeout=1.5)
    with one_paused(asked("a", 3000), late) as (engine, first, last):
        with pytest.raises(marith.DeadlineExceeded):
            last.result(30)
        assert not first.ended
        assert becomes_true(lambda: engine.status().waiting == 0)
        first.cancel()


def test_closing_an_engine_fails_a_paused_request() -> None:
    with one_paused(asked("a", 3000), asked("b", 3000)) as (engine, _, last):
        engine.close()
        with pytest.raises(marith.EngineClosed):
            last.result(30)


def test_a_paused_request_goes_before_others_and_does_not_count_again() -> None:
    with one_paused(asked("a", 3000), asked("b", 120), max_queue=2) as (engine, first, last):
        after = engine.submit(asked("c", 120))
        assert engine.status().waiting == 2
        with pytest.raises(marith.Busy, match="2 requests wait already, and max_queue is 2"):
            engine.submit(asked("d", 120))
        first.cancel()
        assert last.result(60).stats.paused == 1
        assert after.result(60).text


def test_a_text_without_max_tokens_ends_where_the_memory_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with endless_engine(512, cache_bytes=1) as engine:
        held = whole(engine, asked("a b c", 40))
        free = 2 * held
        monkeypatch.setattr(cache_limit, "free_memory", lambda device: free - cached_bytes(engine))
        open_ended = replace(asked("a b c"), stop=Stop(max_tokens=None))
        for request in (open_ended, replace(open_ended, prefix="q r")):
            out = engine.submit(request).result(60)
            assert out.finish_reason == "length"
            assert 38 <= out.usage.completion_tokens + 2 * bool(request.prefix) <= 41
        assert [record.levelname for record in caplog.records].count("WARNING") >= 1
        said = [one.getMessage() for one in caplog.records if "the memory holds" in one.msg]
        assert len(said) == 1
        assert "at most 40 tokens of an answer after a prompt of 3 tokens" in said[0]
        with pytest.raises(marith.RequestError, match="write a smaller max_tokens"):
            engine.submit(asked("a b c", 100)).result(60)
        long = "a b c " * 20
        with pytest.raises(
            marith.RequestError,
            match=r"without max_tokens it may take [\d.]+ k?B: write a max_tokens, or a shorter",
        ):
            engine.submit(replace(open_ended, prompt=long)).result(60)
        assert engine.submit(asked(long, 1)).result(60).text
        wait_until_idle(engine)


@pytest.mark.parametrize("times", [3, 8])
def test_a_text_without_max_tokens_leaves_half_of_the_free_memory_or_stays_in_cache_bytes(
    engine: Engine, times: int
) -> None:
    own = whole(engine, asked("a b c", 50))
    most, free = max(2 * own, times * own // 2), times * own
    admission = Admission(Limits(cache_bytes=2 * own), lambda: free)
    job = standing(engine.open(replace(asked("a b c"), stop=Stop(max_tokens=None))))
    assert admission.refusal(job) is None
    tokens = job.prepared.budget.more
    assert whole(engine, asked("a b c", tokens)) <= most < whole(engine, asked("a b c", tokens + 1))
    # A request with `max_tokens` may take all the memory that is free.
    assert admission.refusal(standing(engine.open(asked("a b c", tokens + 1)))) is None


def test_a_text_without_max_tokens_is_not_limited_where_the_context_fits() -> None:
    with endless_engine(300) as engine:
        out = engine.submit(replace(asked("a b c"), stop=Stop(max_tokens=None))).result(60)
        assert out.usage.total_tokens >= 295
