"""A limit of tokens beyond the context: the answer has as many tokens as fit."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import marith

PROMPT = "Hi."


@pytest.fixture
def engine() -> Iterator[marith.Engine]:
    with marith.Engine.load("pocket", context_length=40) as engine:
        yield engine


def test_a_limit_beyond_the_context_is_what_fits_and_the_completion_says_so(
    engine: marith.Engine,
) -> None:
    fits = 40 - engine.generate(PROMPT, max_tokens=1).usage.prompt_tokens
    whole = engine.generate(PROMPT, max_tokens=fits, ignore_eos=True)
    assert whole.warnings == engine.generate(PROMPT, max_tokens=None).warnings == ()
    cut = engine.generate(PROMPT, max_tokens=100_000, ignore_eos=True)
    assert (len(cut.tokens), cut.finish_reason) == (fits, "length") == (len(whole.tokens), "length")
    [warning] = cut.warnings
    assert "max_tokens is 100000" in warning
    assert f"room for {fits} tokens" in warning


def test_nothing_is_said_of_a_limit_that_nobody_wrote(
    engine: marith.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "marith"):
        assert engine.generate(PROMPT, ignore_eos=True, temperature=0).warnings == ()
    assert caplog.records == []


def test_a_prefix_is_counted(engine: marith.Engine) -> None:
    fits = 40 - engine.generate(PROMPT, max_tokens=1).usage.prompt_tokens
    prefix = "Hello there"
    begun = len(engine.encode(prefix))
    after = engine.generate(PROMPT, prefix=prefix, max_tokens=fits)
    assert f"room for {fits - begun} tokens" in after.warnings[0]
    assert engine.generate(PROMPT, prefix=prefix, max_tokens=fits - begun).warnings == ()


def test_the_log_says_it_once(engine: marith.Engine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "marith"):
        for chunk in engine.stream(PROMPT, max_tokens=100_000):
            assert chunk is not None
        cut = engine.generate(PROMPT, max_tokens=100_000)
    assert [record.message for record in caplog.records] == [*cut.warnings]
