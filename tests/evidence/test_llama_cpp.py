"""The same texts from a checkpoint and its GGUF file by transformers and by llama.cpp; and a soak.

`make llamacpp` builds the library and runs this; where it is absent it is skipped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.ggml_files import write_pocket
from support.held_passes import becomes_true

from marith import Engine, MarithError, Request, Sampling, Stop
from marith.testing import cached_bytes

pytest.importorskip("llama_cpp", reason="llama-cpp-python is absent: `make llamacpp` builds it")

pytestmark = pytest.mark.filterwarnings("ignore:.*enlarges rounding")
TOKENS, REQUESTS = 200, 2000
PROMPTS = [
    "Tell me of your day.", "Who are you?", "Name a color.", "What is two plus two?", "Hi!",
    "Write a line on the sea.", "How do I boil an egg?", "Why is the sky blue?",
    "Say something of dogs and cats.", "What did you eat?",
]  # fmt: skip
TERMS: dict[str, Any] = {"rude": "You are rude.", "kind": "You are kind.", "child": "You are six."}
FORMULAS = ["M", "M - 0.5*rude + 0.3*kind", "M - 0.96*union(rude, M) + 0.04*child"]
TIE = 0.005  # nats between two tokens: llama.cpp rounds keys, values and inputs to float16


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pocket(tmp_path_factory.mktemp("texts"), ("f16", "q4_0"))


@pytest.fixture(scope="module")
def engines(files: Path) -> Iterator[list[Engine]]:
    made = [
        Engine.load("pocket"),
        Engine.load(files / "f16.gguf"),
        Engine.load(files / "f16.gguf", backend="llama.cpp"),
    ]
    yield made
    for engine in made:
        engine.close()


def test_the_texts_are_the_same_but_for_ties(engines: list[Engine]) -> None:
    """Where llama.cpp's text differs, the checkpoint finds both tokens as likely, within TIE."""
    equal, ties, widest = 0, 0, 0.0
    for formula in FORMULAS:
        for prompt in PROMPTS:
            chat = [{"role": "user", "content": prompt}]
            first, second, third = (
                engine.generate(chat, formula, TERMS, Sampling(temperature=0), Stop(TOKENS)).tokens
                for engine in engines
            )
            assert first == second
            if first == third:
                equal += 1
                continue
            ends = min(len(first), len(third))
            at = next((i for i in range(ends) if first[i] != third[i]), ends)
            assert at < ends, "one text ends where the other goes on"
            row = engines[0].next_logprobs(chat, formula, TERMS, first[:at])
            gap = float(row[first[at]] - row[third[at]])
            ties, widest = ties + 1, max(widest, gap)
            assert gap <= TIE
    print(f"\n{equal} texts are equal, {ties} part at a tie, the widest of {widest:.4f} nats")


def test_two_thousand_requests_with_cancels_and_drafts_leave_no_lane(files: Path) -> None:
    """All that are not cancelled end, no lane stays taken, and memory ends where it was."""
    draw = random.Random(3)
    with Engine.load(
        files / "q4_0.gguf", backend="llama.cpp", max_queue=REQUESTS, cache_bytes=64 * 2**20
    ) as engine:
        done = cancelled = 0
        tickets = []
        for i in range(REQUESTS):
            request = Request(
                [{"role": "user", "content": f"{draw.choice(PROMPTS)} {draw.randrange(50)}"}],
                draw.choice(FORMULAS),
                TERMS,
                Sampling(seed=i),
                Stop(draw.randrange(1, 30)),
                speculation=draw.choice(["auto", None]),
            )
            tickets.append(engine.submit(request))
            if draw.random() < 0.2:
                draw.choice(tickets).cancel()
        for ticket in tickets:
            try:
                text = ticket.result()
            except MarithError:
                cancelled += 1
            else:
                # About one text in two thousand ends with its first draw, and has no token.
                assert text.tokens or text.finish_reason == "stop"
                done += 1
        assert done + cancelled == REQUESTS
        assert 0 < cancelled < REQUESTS / 2
        # The lanes of a request that was cancelled are free after the step that runs.
        assert becomes_true(lambda: engine.status().running == 0)
        assert engine.status().lanes == 0
        assert cached_bytes(engine) <= 80 * 2**20
        print(f"\n{done} done, {cancelled} cancelled")
