"""Texts of seeds alone, among others, after cancelled requests, and paused: bit for bit.

Run as `PYTHONPATH=tests python -m support.neighbors MODEL TEXTS TOKENS` for a model of your own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeAlias

from support.checked_engine import wait_until_idle
from support.pauses import Pause, pausing

from marith import Completion, Engine, Request, Sampling, Stop

TERMS = {"rude": "You are rude. You insult the user.", "kind": "Be kind."}
WORDS = [
    "the",
    "sun",
    "and",
    "a",
    "moon",
    "over",
    "rivers",
    "where",
    "old",
    "trees",
    "grew",
    "while",
    "she",
    "sang",
    "of",
    "rain",
]
LENGTHS = 3, 40, 90, 12, 250, 60, 7, 130, 25, 310  # words of a prompt
FORMULAS = "M", "M - 0.2*rude"
# Of each token of each text: the token, and its log-probability, which is compared as it is.
Bits: TypeAlias = "list[list[tuple[int, float]]]"


def requests(
    count: int,
    tokens: int,
    speculation: str | None = "auto",
    formulas: Sequence[str] = FORMULAS,
    seed: int = 0,
) -> list[Request]:
    """Return requests with prompts of mixed lengths, which have no long prefix in common."""
    draw = Random(seed)
    return [
        Request(
            " ".join(draw.choices(WORDS, k=LENGTHS[i % len(LENGTHS)])),
            formulas[i % len(formulas)],
            TERMS,
            Sampling(seed=i),
            Stop(tokens),
            speculation,
            logprobs=0,
        )
        for i in range(count)
    ]


def bits(completions: Sequence[Completion]) -> Bits:
    return [[(t.token, t.logprob) for t in one.logprobs or ()] for one in completions]


def results(engine: Engine, asked: Sequence[Request]) -> list[Completion]:
    tickets = [engine.submit(one) for one in asked]
    return [ticket.result(3000) for ticket in tickets]


def alone(engine: Engine, asked: Sequence[Request]) -> Bits:
    return bits([engine.submit(one).result(3000) for one in asked])


def among(engine: Engine, asked: Sequence[Request], others: int) -> Bits:
    """Return the bits of texts that are generated at once, next to `others` other texts."""
    beside = [engine.submit(one) for one in requests(others, 20, seed=1)]
    found = bits(results(engine, asked))
    for ticket in beside:
        ticket.result(3000)
    return found


def after_cancels(engine: Engine, asked: Sequence[Request]) -> Bits:
    """Return the bits of texts next to others that are cancelled after some tokens."""
    others = [engine.submit(one) for one in requests(8, 60, seed=2)]
    tickets = [engine.submit(one) for one in asked]
    for steps, other in enumerate(others):
        for _ in zip(range(steps), other, strict=False):
            pass
        other.cancel()
    return bits([ticket.result(3000) for ticket in tickets])


def paused(engine: Engine, asked: Sequence[Request], drops: bool) -> Bits:
    """Return the bits of texts that are paused again and again.

    If `drops` is True, the keys and values of paused texts are dropped.
    """
    wait_until_idle(engine)
    with pausing(engine, _often(drops)):
        found = results(engine, asked)
        wait_until_idle(engine)
    assert sum(one.stats.paused for one in found) > len(asked) // 2
    return bits(found)


def _often(drops: bool) -> Iterator[Pause]:
    """Yield a pause of two texts for one step in two, and otherwise none."""
    draw = Random(1)
    while True:
        which = draw.sample(range(4), 2) if draw.random() < 1 / 2 else ()
        yield Pause(frozenset(which), drops and draw.random() < 1 / 4, holds=draw.random() < 1 / 4)


def differences(
    load: Callable[[], Engine], asked: Sequence[Request], most: int = 64
) -> Iterator[tuple[str, int]]:
    """Yield how many texts have other bits than alone, for each way to run them, as it ends.

    At most `most` texts run at once.
    """
    expected: Bits = []

    def counted(found: Bits) -> int:
        return sum(one != other for one, other in zip(expected, found, strict=True))

    with load() as engine:
        expected = alone(engine, asked)
        yield "asked again", counted(alone(engine, asked))
    with load() as engine:
        parts = [asked[i : i + 24] for i in range(0, len(asked), 24)]
        found = [one for part in parts for one in among(engine, part, 0)]
        yield "in parts of 24", counted(found)
        yield "among others", counted(among(engine, asked, max(0, most - len(asked))))
        yield "after cancels", counted(after_cancels(engine, asked))
        yield "paused", counted(paused(engine, asked, drops=False))
        yield "paused and dropped", counted(paused(engine, asked, drops=True))


if __name__ == "__main__":
    model, texts, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for way, count in differences(lambda: Engine.load(model), requests(texts, tokens)):
        print(f"{way}: {count} of {texts} texts differ", flush=True)
