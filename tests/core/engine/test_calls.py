"""Calls of an engine: options by name, lists of prompts, samples, choices."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import pytest

from marith import Engine, Grammar, RequestError, Sampling, Stop

TEXTS = ["Hello!", "Tell me a story.", [{"role": "user", "content": "Who are you?"}]]
FORMAL = {"formal": "You are formal."}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket", max_lanes=8, max_queue=4) as engine:
        yield engine


def test_a_list_of_prompts_gives_each_text_as_alone(engine: Engine) -> None:
    # No random number of this seed lies within 5e-5 of where another token begins: where the
    # prompt is cached, rounding moves these places by 3e-6.
    drawn: dict[str, Any] = {"seed": 2, "max_tokens": 8}
    alone = [engine.generate(text, "2*formal - M", FORMAL, **drawn).text for text in TEXTS]
    listed = engine.generate(TEXTS, "2*formal - M", FORMAL, **drawn)
    assert [answer.text for answer in listed] == alone
    awaited = asyncio.run(engine.agenerate(TEXTS, "2*formal - M", FORMAL, **drawn))
    assert [answer.text for answer in awaited] == alone


def test_samples_are_those_of_their_seeds_and_read_the_prompt_once(engine: Engine) -> None:
    prompt = "Where do the pandas of the mountains live, and what do they eat all day long?"
    samples = engine.generate(prompt, seed=7, n=3, max_tokens=8, speculation=None)
    alone = [
        engine.generate(prompt, sampling=Sampling(seed=7 + i), stop=Stop(8)).tokens
        for i in range(3)
    ]
    assert [sample.tokens for sample in samples] == alone
    cached = [sample.usage.cached_tokens for sample in samples]
    assert cached[1:] == [samples[0].usage.prompt_tokens - 1] * 2


def test_a_long_list_waits_for_lanes_and_for_the_queue(engine: Engine) -> None:
    answers = engine.generate(["Hello!"] * 40, "2*formal - M", FORMAL, temperature=0, max_tokens=2)
    assert len({answer.text for answer in answers}) == 1
    assert len(answers) == 40


def test_the_first_error_of_a_list_is_raised_and_cancels_the_others(engine: Engine) -> None:
    with pytest.raises(RequestError, match="a message must be written as"):
        engine.generate(["Hello!", [None]], max_tokens=200)
    assert engine.generate("Hello!", temperature=0, max_tokens=2).tokens


def test_a_stream_takes_one_prompt_and_gives_one_text(engine: Engine) -> None:
    chunks = engine.stream("Hello!", temperature=0, max_tokens=6, stop="zzz")
    whole = engine.generate("Hello!", temperature=0, max_tokens=6)
    assert "".join(chunk.text for chunk in chunks) == whole.text
    with pytest.raises(
        RequestError, match=r"pass a list of prompts to Engine\.generate or agenerate"
    ):
        engine.stream(["Hello!", "Hi!"])  # type: ignore[list-item]
    with pytest.raises(RequestError, match="generate and agenerate take n"):
        engine.stream("Hello!", n=2)  # type: ignore[call-arg]


def test_a_ranking_has_the_probabilities_of_the_texts(engine: Engine) -> None:
    options = ["Yes.", "No.", "Maybe so."]
    ranking = engine.rank("Is the sky blue?", options, "2*formal - M", FORMAL)
    sums = {
        text: math.fsum(engine.score("Is the sky blue?", text, "2*formal - M", FORMAL))
        for text in options
    }
    assert ranking.logprobs == pytest.approx(sums)
    assert ranking.text == max(sums, key=lambda text: sums[text])
    total = math.fsum(map(math.exp, sums.values()))
    shares = {text: math.exp(logprob) / total for text, logprob in sums.items()}
    assert ranking.probabilities == pytest.approx(shares, rel=1e-3)


def test_a_grammar_of_choices_allows_each_and_nothing_else(engine: Engine) -> None:
    options = ['say "sir"', "a/b\\c", "two\nlines", "ä b"]
    drawn = engine.generate("Hi", grammar=Grammar.choice(options), temperature=9.0, n=24, seed=0)
    texts = {answer.text for answer in drawn}
    assert texts <= set(options)
    assert len(texts) > 1
