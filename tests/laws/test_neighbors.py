"""Law: a text of a seed has the same bits alone and next to others, on a CPU in float32.

The reported log-probabilities are compared as they are, not within a tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from marith import Completion, Engine, Request, Sampling, Stop

TERMS = {"rude": "You are rude. You insult the user.", "kind": "Be kind."}
FORMULAS = "M", "M - 0.2*rude", "union(M, kind) + 0.3*rude"
LENGTHS = 3, 40, 90, 12, 250, 60, 7, 130, 25, 310


def requests(speculation: str | None) -> list[Request]:
    words = ["the", "sun", "and", "a", "moon", "over", "rivers", "where", "old", "trees", "grew"]
    return [
        Request(
            " ".join(words[(i + j) % len(words)] for j in range(length)),
            FORMULAS[i % 3],
            TERMS,
            Sampling(seed=i),
            Stop(25),
            speculation,
            logprobs=0,
        )
        for i, length in enumerate(LENGTHS)
    ]


def bits(completions: Sequence[Completion]) -> list[list[tuple[int, float]]]:
    return [[(t.token, t.logprob) for t in one.logprobs or ()] for one in completions]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_a_text_has_the_same_bits_alone_and_next_to_others(
    engine: Engine, speculation: str | None
) -> None:
    asked = requests(speculation)
    alone = bits([engine.submit(one).result(60) for one in asked])
    with Engine.load("pocket") as other:
        tickets = [other.submit(one) for one in reversed(asked)]
        assert bits([ticket.result(60) for ticket in reversed(tickets)]) == alone
    # Asked again, the prompts are read from the cache.
    assert bits([engine.submit(one).result(60) for one in asked]) == alone


def test_a_text_has_the_same_bits_after_others_were_cancelled(engine: Engine) -> None:
    asked = requests("auto")
    alone = bits([engine.submit(one).result(60) for one in asked[:4]])
    for step in (1, 5):
        others = [engine.submit(one) for one in asked[4:]]
        kept = [engine.submit(one) for one in asked[:4]]
        for ticket in others:
            for _ in zip(range(step), ticket, strict=False):
                pass
            ticket.cancel()
        assert bits([ticket.result(60) for ticket in kept]) == alone
