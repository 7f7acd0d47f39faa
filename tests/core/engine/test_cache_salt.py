"""A cached prefix serves only its own salt, and changes no text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import marith
from marith import Completion, Engine, Prompted, Sampling, Stop
from marith.scoring.terms.tree_runner import TreeRunner

PROMPT = "Tell me, in a few words, which rivers of this country you have seen, and when."
TERMS = {"polite": "Answer as a kind and patient teacher would."}
FORMULA = "M + 0.5*polite"
JUDGED = "M + 0.5*C"
JUDGE = {"C": marith.Classifier("pocket-toxicity", label="civil", candidates=5, read_prompt=True)}
NO_SALT = "cache_salt must be a non-empty text, not"
REPEATED = 20  # tokens, at least, that a prompt which was read before need not be read again


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


def asked(
    engine: Engine, salt: str | None, formula: str = FORMULA, terms: Any = TERMS
) -> Completion:
    return engine.generate(PROMPT, formula, terms, Sampling(seed=3), Stop(6), cache_salt=salt)


def test_only_requests_with_the_same_salt_share_cached_prefixes(engine: Engine) -> None:
    first = asked(engine, "tenant a")
    other, common, again = (asked(engine, salt) for salt in ("tenant b", None, "tenant a"))
    assert [out.stats.cached for out in (first, other, common)] == [0, 0, 0]
    assert again.usage.cached_tokens >= REPEATED
    assert again.stats.cached >= 2 * REPEATED  # of both terms
    assert asked(engine, None).usage.cached_tokens >= REPEATED
    assert {out.text for out in (first, other, common, again)} == {first.text}


@pytest.mark.parametrize("way", ["stream", "astream", "agenerate", "score", "next_logprobs"])
def test_every_call_has_a_salt(engine: Engine, way: str) -> None:
    async def ask() -> None:
        if way == "agenerate":
            await engine.agenerate(PROMPT, FORMULA, TERMS, max_tokens=2, cache_salt="a")
        else:
            options: Any = {"max_tokens": 2, "cache_salt": "a"}
            assert [chunk async for chunk in engine.astream(PROMPT, FORMULA, TERMS, **options)]

    if way == "stream":
        assert [*engine.stream(PROMPT, FORMULA, TERMS, max_tokens=2, cache_salt="a")]
    elif way == "score":
        engine.score(PROMPT, "Well,", FORMULA, TERMS, cache_salt="a")
    elif way == "next_logprobs":
        engine.next_logprobs(PROMPT, FORMULA, TERMS, cache_salt="a")
    else:
        asyncio.run(ask())
    assert asked(engine, "b").stats.cached == 0
    assert asked(engine, "a").usage.cached_tokens >= REPEATED


def test_a_choice_reads_its_prompt_under_its_salt(engine: Engine) -> None:
    ranking = engine.rank(PROMPT, ["yes", "no"], FORMULA, TERMS, cache_salt="a")
    assert ranking == engine.rank(PROMPT, ["yes", "no"], FORMULA, TERMS)
    assert asked(engine, "b").stats.cached == 0
    assert asked(engine, "a").usage.cached_tokens >= REPEATED


def test_a_classifier_reads_a_text_again_for_another_salt(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    forward = TreeRunner._forward

    def counted(self: TreeRunner, rows: Any) -> None:
        read.append(sum(row.stop - row.start for row in rows))
        forward(self, rows)

    def tokens(salt: str | None) -> tuple[int, str]:
        read.clear()
        text = asked(engine, salt, JUDGED, JUDGE).text
        return sum(read), text

    tokens("warm")  # what loads a classifier reads texts to compare
    monkeypatch.setattr(TreeRunner, "_forward", counted)
    first, other, again = tokens("a"), tokens("b"), tokens("a")
    assert first == other
    assert again[0] <= first[0] - REPEATED // 2
    assert again[1] == first[1]


def test_a_system_prompt_is_no_part_of_the_prompt_that_was_cached(engine: Engine) -> None:
    """`usage` counts what the caller wrote; the term's own tokens are in its stats."""
    terms = {"polite": TERMS["polite"] * 9}
    for other in ("Which rivers?", "And which lakes, of all that there are?"):
        for formula in ("polite", "M + 0.5*polite"):
            first, again = (
                engine.generate(other, formula, terms, Sampling(seed=3), Stop(2), cache_salt=other)
                for _ in range(2)
            )
            assert first.usage.cached_tokens <= 1  # the token that all texts begin with
            assert again.usage.cached_tokens == again.usage.prompt_tokens - 1
            polite = min(one.cached_tokens for one in again.stats.terms.values())
            assert polite >= again.usage.cached_tokens


def test_a_salt_is_a_text_that_is_not_empty(engine: Engine) -> None:
    wrong: list[Any] = ["", 7, b"a", ["a"], {"text": "a"}]
    for salt in wrong:
        with pytest.raises(marith.RequestError, match=NO_SALT):
            engine.generate(PROMPT, cache_salt=salt)
        with pytest.raises(marith.RequestError, match=NO_SALT):
            engine.score(PROMPT, "a", "M + x", {"x": Prompted("X")}, cache_salt=salt)
