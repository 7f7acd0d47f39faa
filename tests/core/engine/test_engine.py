"""The engine gives the texts of the reference decoder, for every formula, alone and together."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.checked_engine import FORMULAS, CheckedEngine, request, wait_until_idle
from support.reference import Reference
from transformers import RepetitionPenaltyLogitsProcessor

import marith
from marith import Engine, Request, Sampling, Stop
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import FAMILIES, lanes_in_use, tiny_model, tiny_tokenizer

SAMPLINGS = (
    Sampling(seed=1),
    Sampling(temperature=0.0),
    Sampling(temperature=0.7, top_k=6, seed=2),
    Sampling(temperature=1.5, top_p=0.8, min_p=0.02, repetition_penalty=1.3, seed=3),
)
EACH = list(zip(FORMULAS, itertools.cycle(SAMPLINGS), strict=False))


@pytest.mark.parametrize(("formula", "sampling"), EACH)
def test_every_formula_gives_the_text_of_the_reference_decoder(
    checked: CheckedEngine, formula: str, sampling: Sampling
) -> None:
    asked = request(checked, formula, len(formula), sampling)
    text, tokens, reason = checked.reference.decode(asked)
    got = checked.engine.submit(asked).result(timeout=60)
    assert (got.text, got.tokens, got.finish_reason) == (text, tokens, reason)


@pytest.mark.parametrize("how", [None, "auto", marith.Plan.factors({"x": 2, "y": 3})])
def test_a_repetition_in_the_prompt_counts_as_in_transformers(
    checked: CheckedEngine, how: Any
) -> None:
    """As the bare model reads the prompt, whatever other terms read. Other penalties do not."""
    formula = "2*M - 0.5*x + 0.3*y"
    prompt = [*range(3, checked.engine.vocabulary_size, 2)]
    theirs = RepetitionPenaltyLogitsProcessor(1.6)

    def greedy(read: list[int]) -> list[int]:
        tokens: list[int] = []
        for _ in range(12):
            rows = checked.engine.next_logprobs(prompt, formula, checked.terms, tokens)[None]
            tokens.append(int(theirs(torch.tensor([[*read, *tokens]]), rows).argmax()))
        return tokens

    tokens = greedy(prompt)
    assert tokens != greedy(prompt[:1])
    cold = Sampling(temperature=0.0, repetition_penalty=1.6)
    asked = Request(prompt, formula, checked.terms, cold, Stop(12, ignore_eos=True), how)
    whole = checked.engine.submit(asked).result(60)
    assert whole.tokens == tokens
    continued = replace(asked, prefix=tokens[:5], stop=Stop(7, ignore_eos=True))
    assert checked.engine.submit(continued).result(60).tokens == tokens[5:]
    later = Sampling(temperature=0.0, presence_penalty=9.0)
    first = checked.engine.submit(replace(asked, sampling=later, stop=Stop(1))).result(60)
    plain = checked.engine.next_logprobs(prompt, formula, checked.terms)
    assert first.tokens == [int(plain.argmax())]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_models_gives_the_text_of_the_reference_decoder(family: str) -> None:
    model, tokenizer = tiny_model(family, seed=5), tiny_tokenizer()
    with Engine.load(model, tokenizer=tokenizer) as engine:
        reference = Reference({None: (model, Vocabulary(tokenizer, 28))})
        for i in range(3):
            asked = Request(
                "a b c " * (i + 1), "2*M - 0.5*x", {"x": "q q"}, Sampling(seed=i), Stop(12)
            )
            got = engine.submit(asked).result(timeout=60)
            assert (got.text, got.tokens, got.finish_reason) == reference.decode(asked)


def test_a_scored_continuation_is_what_generation_would_have_given_it(
    checked: CheckedEngine,
) -> None:
    for i, formula in enumerate(FORMULAS):
        asked = replace(request(checked, formula, i), stop=Stop(6))
        tokens = checked.reference.decode(asked)[1]
        scores = checked.engine.score(asked.prompt, tokens, formula, checked.terms)
        for k, (token, score) in enumerate(zip(tokens, scores, strict=True)):
            want = checked.reference.distribution(asked, tokens[:k])[0, token]
            assert score == pytest.approx(float(want), abs=1e-3)
        following = checked.engine.next_logprobs(asked.prompt, formula, checked.terms, tokens)
        want = checked.reference.distribution(asked, tokens)[0]
        finite = want > -1e9
        assert torch.equal(finite, following > -1e9)
        assert torch.allclose(following[finite], want[finite], atol=1e-3)


def test_texts_scored_together_say_which_tokens_are_likeliest(checked: CheckedEngine) -> None:
    texts = [("a b c", [7, 8, 9, 10]), ("c", [5, 5]), ("a b", [3, 12, 4])]
    futures = [checked.engine.submit_scoring(*text, "2*M - x", checked.terms) for text in texts]
    for (prompt, tokens), future in zip(texts, futures, strict=True):
        told = future.result(timeout=60)
        assert told.logprobs == pytest.approx(
            checked.engine.score(prompt, tokens, "2*M - x", checked.terms), abs=1e-4
        )
        for k, (token, best) in enumerate(zip(tokens, told.likeliest, strict=True)):
            after = checked.engine.next_logprobs(prompt, "2*M - x", checked.terms, tokens[:k])
            assert best is (int(after.argmax()) == token)


def test_sixteen_uneven_requests_from_threads_and_tasks_equal_the_reference(
    checked: CheckedEngine,
) -> None:
    asked = [request(checked, FORMULAS[i % len(FORMULAS)], 100 + i) for i in range(16)]
    want = [checked.reference.decode(one) for one in asked]

    async def tasks() -> list[marith.Completion]:
        tickets = [checked.engine.submit(one) for one in asked[8:]]
        return await asyncio.gather(*(ticket._finished() for ticket in tickets))

    with ThreadPoolExecutor(9) as pool:
        from_tasks = pool.submit(lambda: asyncio.run(tasks()))
        from_threads = [
            pool.submit(lambda r=r: checked.engine.submit(r).result(60)) for r in asked[:8]
        ]
        got = [future.result() for future in from_threads] + from_tasks.result()
    assert [(c.text, c.tokens, c.finish_reason) for c in got] == want


@settings(max_examples=12)
@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, 6)), min_size=2, max_size=16))
def test_any_interleaving_with_cancellations_equals_the_reference(
    checked: CheckedEngine, plan: list[tuple[int, int]]
) -> None:
    tickets = []
    for i, (which, dropped_after) in enumerate(plan):
        asked = request(checked, FORMULAS[which], 500 + i)
        ticket = checked.engine.submit(asked)
        if dropped_after == 0:
            tickets.append((asked, ticket))
        elif dropped_after == 1:
            ticket.cancel()
        else:
            reader = iter(ticket)
            for _ in range(dropped_after - 1):
                next(reader, None)
            reader.close()
    for asked, ticket in tickets:
        got = ticket.result(timeout=60)
        assert (got.text, got.tokens, got.finish_reason) == checked.reference.decode(asked)
    wait_until_idle(checked.engine)


def test_a_stream_joins_to_the_text_that_generate_gives(checked: CheckedEngine) -> None:
    for formula in FORMULAS[::4]:
        asked = request(checked, formula, 7)
        whole = checked.engine.submit(asked).result(60)
        chunks = list(checked.engine.submit(asked))
        assert "".join(chunk.text for chunk in chunks) == whole.text
        assert [t for chunk in chunks for t in chunk.tokens] == whole.tokens
        assert [chunk.finish_reason for chunk in chunks][-1] == whole.finish_reason
        assert all(chunk.finish_reason is None for chunk in chunks[:-1])


def test_all_64_bits_of_a_seed_count(checked: CheckedEngine) -> None:
    seeds = (1, 2**32 + 1, 5 * 2**32 + 1, 0, 2**40, -(2**63), -1, 2**63 - 1)
    texts = [
        tuple(
            checked.engine.generate("a b", sampling=Sampling(1.5, seed=seed), stop=Stop(24)).tokens
        )
        for seed in seeds
    ]
    assert len({*texts}) == len(seeds)


def test_a_forgotten_or_dropped_ticket_frees_its_lanes(checked: CheckedEngine) -> None:
    long = Request("a", "2*x - M", checked.terms, Sampling(seed=1), Stop(100))
    wait_until_idle(checked.engine)
    checked.engine.submit(long)  # forgotten at once
    for chunk in checked.engine.submit(long):
        assert chunk.tokens
        break
    wait_until_idle(checked.engine)
    assert lanes_in_use(checked.engine) == 0


def test_lanes_in_flight_stay_within_the_limit_and_late_requests_are_served(
    checked: CheckedEngine,
) -> None:
    seen: list[int] = []
    tickets = [checked.engine.submit(request(checked, "x - 0.6*y + M", 900 + i)) for i in range(40)]
    while not checked.engine.status().idle:
        seen.append(checked.engine.status().lanes)
        time.sleep(0.001)
    assert max(seen) <= 24
    assert all(ticket.result(60).finish_reason for ticket in tickets)


def test_costs_are_counted(checked: CheckedEngine) -> None:
    asked = Request("a b c", "M + 1.5*(big - x)", checked.terms, Sampling(seed=8), Stop(10))
    wait_until_idle(checked.engine)
    got = checked.engine.submit(asked).result(60)
    steps = len(got.tokens) + (got.finish_reason == "stop")
    assert got.stats.calls == 3 * steps
    assert 2 * steps <= got.stats.passes <= 2 * steps + 2  # two checkpoints; prompts differ once
    assert got.usage.prompt_tokens == 3
    assert got.usage.total_tokens == 3 + got.usage.completion_tokens
    assert got.usage.completion_tokens == len(got.tokens)
    again = checked.engine.submit(asked).result(60)
    assert again.usage.cached_tokens == 2  # all of the prompt but the token that is asked anew


def test_the_context_ends_a_text_by_its_length() -> None:
    model, tokenizer = tiny_model(seed=1, context_length=16), tiny_tokenizer()
    with Engine.load(model, tokenizer=tokenizer) as engine:
        reference = Reference({None: (model, Vocabulary(tokenizer, 28))})
        asked = Request("a b c d e", sampling=Sampling(seed=3), stop=Stop(100))
        got = engine.submit(asked).result(60)
        assert (got.text, got.tokens, got.finish_reason) == reference.decode(asked, 16)
