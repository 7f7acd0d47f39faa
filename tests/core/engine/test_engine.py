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
from support.house import FORMULAS, House, request, wait_until_idle
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
    house: House, formula: str, sampling: Sampling
) -> None:
    asked = request(house, formula, len(formula), sampling)
    text, tokens, reason = house.reference.decode(asked)
    got = house.engine.submit(asked).result(timeout=60)
    assert (got.text, got.tokens, got.finish_reason) == (text, tokens, reason)


@pytest.mark.parametrize("how", [None, "auto", marith.Plan.factors({"x": 2, "y": 3})])
def test_a_repetition_in_the_prompt_counts_as_in_transformers(house: House, how: Any) -> None:
    """As the bare model reads the prompt, whatever other terms read. Other penalties do not."""
    formula = "2*M - 0.5*x + 0.3*y"
    prompt = [*range(3, house.engine.vocabulary_size, 2)]
    theirs = RepetitionPenaltyLogitsProcessor(1.6)

    def greedy(read: list[int]) -> list[int]:
        tokens: list[int] = []
        for _ in range(12):
            rows = house.engine.next_logprobs(prompt, formula, house.terms, tokens)[None]
            tokens.append(int(theirs(torch.tensor([[*read, *tokens]]), rows).argmax()))
        return tokens

    tokens = greedy(prompt)
    assert tokens != greedy(prompt[:1])
    cold = Sampling(temperature=0.0, repetition_penalty=1.6)
    asked = Request(prompt, formula, house.terms, cold, Stop(12, ignore_eos=True), how)
    whole = house.engine.submit(asked).result(60)
    assert whole.tokens == tokens
    continued = replace(asked, prefix=tokens[:5], stop=Stop(7, ignore_eos=True))
    assert house.engine.submit(continued).result(60).tokens == tokens[5:]
    later = Sampling(temperature=0.0, presence_penalty=9.0)
    first = house.engine.submit(replace(asked, sampling=later, stop=Stop(1))).result(60)
    plain = house.engine.next_logprobs(prompt, formula, house.terms)
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


def test_a_scored_continuation_is_what_generation_would_have_given_it(house: House) -> None:
    for i, formula in enumerate(FORMULAS):
        asked = replace(request(house, formula, i), stop=Stop(6))
        tokens = house.reference.decode(asked)[1]
        scores = house.engine.score(asked.prompt, tokens, formula, house.terms)
        for k, (token, score) in enumerate(zip(tokens, scores, strict=True)):
            want = house.reference.distribution(asked, tokens[:k])[0, token]
            assert score == pytest.approx(float(want), abs=1e-3)
        following = house.engine.next_logprobs(asked.prompt, formula, house.terms, tokens)
        want = house.reference.distribution(asked, tokens)[0]
        finite = want > -1e9
        assert torch.equal(finite, following > -1e9)
        assert torch.allclose(following[finite], want[finite], atol=1e-3)


def test_texts_scored_together_say_which_tokens_are_likeliest(house: House) -> None:
    texts = [("a b c", [7, 8, 9, 10]), ("c", [5, 5]), ("a b", [3, 12, 4])]
    futures = [house.engine.submit_scoring(*text, "2*M - x", house.terms) for text in texts]
    for (prompt, tokens), future in zip(texts, futures, strict=True):
        told = future.result(timeout=60)
        assert told.logprobs == pytest.approx(
            house.engine.score(prompt, tokens, "2*M - x", house.terms), abs=1e-4
        )
        for k, (token, best) in enumerate(zip(tokens, told.likeliest, strict=True)):
            after = house.engine.next_logprobs(prompt, "2*M - x", house.terms, tokens[:k])
            assert best is (int(after.argmax()) == token)


def test_sixteen_uneven_requests_from_threads_and_tasks_equal_the_reference(house: House) -> None:
    asked = [request(house, FORMULAS[i % len(FORMULAS)], 100 + i) for i in range(16)]
    want = [house.reference.decode(one) for one in asked]

    async def tasks() -> list[marith.Completion]:
        tickets = [house.engine.submit(one) for one in asked[8:]]
        return await asyncio.gather(*(ticket._finished() for ticket in tickets))

    with ThreadPoolExecutor(9) as pool:
        from_tasks = pool.submit(lambda: asyncio.run(tasks()))
        from_threads = [
            pool.submit(lambda r=r: house.engine.submit(r).result(60)) for r in asked[:8]
        ]
        got = [future.result() for future in from_threads] + from_tasks.result()
    assert [(c.text, c.tokens, c.finish_reason) for c in got] == want


@settings(max_examples=12)
@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, 6)), min_size=2, max_size=16))
def test_any_interleaving_with_cancellations_equals_the_reference(
    house: House, plan: list[tuple[int, int]]
) -> None:
    tickets = []
    for i, (which, dropped_after) in enumerate(plan):
        asked = request(house, FORMULAS[which], 500 + i)
        ticket = house.engine.submit(asked)
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
        assert (got.text, got.tokens, got.finish_reason) == house.reference.decode(asked)
    wait_until_idle(house.engine)


def test_a_stream_joins_to_the_text_that_generate_gives(house: House) -> None:
    for formula in FORMULAS[::4]:
        asked = request(house, formula, 7)
        whole = house.engine.submit(asked).result(60)
        chunks = list(house.engine.submit(asked))
        assert "".join(chunk.text for chunk in chunks) == whole.text
        assert [t for chunk in chunks for t in chunk.tokens] == whole.tokens
        assert [chunk.finish_reason for chunk in chunks][-1] == whole.finish_reason
        assert all(chunk.finish_reason is None for chunk in chunks[:-1])


def test_all_64_bits_of_a_seed_count(house: House) -> None:
    seeds = (1, 2**32 + 1, 5 * 2**32 + 1, 0, 2**40, -(2**63), -1, 2**63 - 1)
    texts = [
        tuple(house.engine.generate("a b", sampling=Sampling(1.5, seed=seed), stop=Stop(24)).tokens)
        for seed in seeds
    ]
    assert len({*texts}) == len(seeds)


def test_a_forgotten_or_dropped_ticket_frees_its_lanes(house: House) -> None:
    long = Request("a", "2*x - M", house.terms, Sampling(seed=1), Stop(100))
    wait_until_idle(house.engine)
    house.engine.submit(long)  # forgotten at once
    for chunk in house.engine.submit(long):
        assert chunk.tokens
        break
    wait_until_idle(house.engine)
    assert lanes_in_use(house.engine) == 0


def test_lanes_in_flight_stay_within_the_limit_and_late_requests_are_served(house: House) -> None:
    seen: list[int] = []
    tickets = [house.engine.submit(request(house, "x - 0.6*y + M", 900 + i)) for i in range(40)]
    while not house.engine.status().idle:
        seen.append(house.engine.status().lanes)
        time.sleep(0.001)
    assert max(seen) <= 24
    assert all(ticket.result(60).finish_reason for ticket in tickets)


def test_costs_are_counted(house: House) -> None:
    asked = Request("a b c", "M + 1.5*(big - x)", house.terms, Sampling(seed=8), Stop(10))
    wait_until_idle(house.engine)
    got = house.engine.submit(asked).result(60)
    steps = len(got.tokens) + (got.finish_reason == "stop")
    assert got.stats.calls == 3 * steps
    assert 2 * steps <= got.stats.passes <= 2 * steps + 2  # two checkpoints; prompts differ once
    assert got.usage.prompt_tokens == 3
    assert got.usage.total_tokens == 3 + got.usage.completion_tokens
    assert got.usage.completion_tokens == len(got.tokens)
    again = house.engine.submit(asked).result(60)
    assert again.usage.cached_tokens == 2  # all of the prompt but the token that is asked anew


def test_the_context_ends_a_text_by_its_length() -> None:
    model, tokenizer = tiny_model(seed=1, context_length=16), tiny_tokenizer()
    with Engine.load(model, tokenizer=tokenizer) as engine:
        reference = Reference({None: (model, Vocabulary(tokenizer, 28))})
        asked = Request("a b c d e", sampling=Sampling(seed=3), stop=Stop(100))
        got = engine.submit(asked).result(60)
        assert (got.text, got.tokens, got.finish_reason) == reference.decode(asked, 16)
