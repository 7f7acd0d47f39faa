"""The cost of other requests, of longer texts and of a new process: in time and in memory."""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import psutil

from benchmarks.benchmark_settings import BenchmarkSettings
from benchmarks.engine_variants import timed_request
from benchmarks.rounds import Sample, TokenClock, Variant, pace
from benchmarks.timed_model import TimedModel
from marith.console import counted
from marith.engine.engine import Engine

CHATS = 4
HELD_WORDS = 200  # of a prompt whose keys and values are measured
LONG_WORDS = 600  # of a prompt that is read while others chat
# The tokens of a chat. The long prompt has been read before a chat ends.
MOST = 256
SYSTEM = 12  # words of a system prompt
_STARTING = """
import json, sys, time
begun = time.perf_counter()
from marith import Engine, Sampling, Stop
Engine.load
imported = time.perf_counter()
with Engine.load(sys.argv[1], **json.loads(sys.argv[2])) as engine:
    loaded = time.perf_counter()
    engine.generate("Hello", stop=Stop(1), sampling=Sampling(seed=0))
    done = time.perf_counter()
print(json.dumps([imported - begun, loaded - imported, done - loaded]))
"""


def held(subject: TimedModel, settings: BenchmarkSettings, lanes: int, requests: int) -> Variant:
    """Generate texts in an engine of their own, and measure how much the process grows.

    The time per token is over all tokens. `tokens_bytes` is the size of the keys and values of all
    tokens in the model's type, and of nothing else. `resident` is the growth of the process since
    before the first request, measured when the last text is done and all are held.
    """
    name = counted(requests, "request")

    def run(turn: int) -> Sample:
        with subject.engine(lanes) as engine:
            # The first request allocates the buffers of steps, which do not count.
            engine.submit(_request(subject, f"{name} {turn} first", 2)).result()
            before = _resident()
            clock = TokenClock.start()
            tickets = [
                engine.submit(
                    _request(subject, f"{name} {turn} {i}", settings.tokens, question=HELD_WORDS)
                )
                for i in range(requests)
            ]
            stats = [ticket.result().stats for ticket in tickets]
            clock.lap(requests * settings.tokens)
            grown = _resident() - before
        read = sum(term.prompt_tokens for one in stats for term in one.terms.values())
        # The last token of each text is never read.
        tokens = read + requests * (settings.tokens - 1)
        return Sample(
            pace(clock.arrivals), tokens_bytes=tokens * _token_bytes(subject.model), resident=grown
        )

    return Variant(name, run)


def chats(subject: TimedModel, engine: Engine, tokens: int) -> Variant:
    """Time short chats that run together: the time per token of one of them."""
    name = f"{CHATS} chats alone"

    def run(turn: int) -> Sample:
        readers = _begun(subject, engine, f"{name} {turn}", tokens + CHATS)
        clock = TokenClock.start()
        for chunk in readers[-1]:
            clock.lap(len(chunk.tokens))
        return Sample(pace(clock.arrivals))

    return Variant(name, run)


def chats_beside_long(subject: TimedModel, engine: Engine) -> Variant:
    """Time chats while a long prompt is read, and the prompt's `first_token`."""
    name = f"{CHATS} chats beside a long prompt"

    def run(turn: int) -> Sample:
        readers = _begun(subject, engine, f"{name} {turn}", MOST)
        clock = TokenClock.start()
        long = engine.submit(_request(subject, f"{name} {turn} long", 1, question=LONG_WORDS))
        for chunk in readers[-1]:
            clock.lap(len(chunk.tokens))
            if long.ended:
                break
        first = 1e3 * long.result().stats.seconds
        seconds, tokens = clock.arrivals[-1][0], sum(count for _, count in clock.arrivals)
        return Sample(1e3 * seconds / tokens, first_token=first)

    return Variant(name, run)


def long_alone(subject: TimedModel, engine: Engine) -> Variant:
    """Time the first token of the long prompt without other requests."""
    name = "the long prompt alone"

    def run(turn: int) -> Sample:
        request = _request(subject, f"{name} {turn}", 1, question=LONG_WORDS)
        first = 1e3 * engine.submit(request).result().stats.seconds
        return Sample(first, first_token=first)

    return Variant(name, run, over=name)


def starting(settings: BenchmarkSettings) -> list[Variant]:
    """Time a new process: its import, the loading of a checkpoint, and the first token.

    One process per round gives all three.
    """
    model = settings.model or "pocket"
    options = {"dtype": settings.dtype}

    @cache
    def times(turn: int) -> Sequence[float]:  # noqa: ARG001 (each round has a process of its own)
        command = [sys.executable, "-c", _STARTING, model, json.dumps(options)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
        return seconds

    def variant(name: str, part: int) -> Variant:
        return Variant(name, lambda turn: Sample(1e3 * times(turn)[part]), over=name)

    names = "import marith's engine", f"load {model}", "the first token"
    return [variant(name, part) for part, name in enumerate(names)]


def _begun(subject: TimedModel, engine: Engine, seed: str, tokens: int) -> list[Any]:
    """Return iterators over chats that all have a first token. A request ends with its iterator."""
    tickets = [engine.submit(_request(subject, f"{seed} {i}", tokens)) for i in range(CHATS)]
    readers = [iter(ticket) for ticket in tickets]
    for reader in readers:
        next(reader)
    return readers


def _request(subject: TimedModel, seed: str, tokens: int, question: int = 16) -> Any:
    prompt = subject.prompt(1, seed, SYSTEM, question)
    return timed_request(prompt, (1.0,), tokens, 0, speculation=None)


def _token_bytes(model: Any) -> int:
    """Return the size of a token's keys and values, if every layer keeps its own."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    kept = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * kept * dim * model.dtype.itemsize)


def _resident() -> int:
    """Return the bytes that the process holds in memory, without those that it has freed."""
    gc.collect()
    # glibc keeps freed memory until it is trimmed.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return int(psutil.Process().memory_info().rss)
