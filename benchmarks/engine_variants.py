"""Times of the engine: formulas of several terms, many requests at once, and the first token."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, TypeAlias

from benchmarks.rounds import Sample, TokenClock, Variant
from benchmarks.timed_model import TimedModel, TimedPrompt
from marith.console import counted
from marith.engine.engine import Engine
from marith.formula.tree.terms import Prompted
from marith.request.request import Request
from marith.request.sampling import Sampling
from marith.request.stop import Stop

Drafts: TypeAlias = Literal["auto"] | None


def terms(subject: TimedModel, engine: Engine, weights: Sequence[float], tokens: int) -> Variant:
    """Time one request of a formula with `count` terms, each with a system prompt of its own."""
    count = len(weights)
    name = f"marith, {count} term{'s' if count > 1 else ''}"

    def run(turn: int) -> Sample:
        prompt = subject.prompt(count, f"{name} {turn}")
        request = timed_request(prompt, weights, tokens, turn)
        clock = TokenClock.start()
        ticket = engine.submit(request)
        for chunk in ticket:
            clock.lap(len(chunk.tokens))
        stats = ticket.result().stats
        assert stats.tokens == tokens, "a model without an end token makes them all"
        return clock.sample(stats.passes_per_token)

    return Variant(name, run)


def concurrent(
    subject: TimedModel,
    engine: Engine,
    weights: Sequence[float],
    requests: int,
    tokens: int,
    speculation: Drafts = None,
    temperature: float = 1.0,
) -> Variant:
    """Time `requests` requests at once, under the system prompts of an application.

    Each request has its own question. The time per token is over all tokens, from the first request
    to the last answer; acceptance is over all drafted tokens. At temperature 0 the texts of a
    random model repeat themselves.
    """
    plain = counted(requests, "request") + (", repeating" if temperature == 0 else "")
    name = f"{plain}, {speculation}" if speculation else plain
    systems = subject.prompt(len(weights), "an application").systems

    def run(turn: int) -> Sample:
        seeds = [f"{name} {turn} {i}" for i in range(requests)]
        prompts = [TimedPrompt(subject.prompt(0, seed).question, systems) for seed in seeds]
        submitted = [
            timed_request(prompt, weights, tokens, i, speculation, temperature)
            for i, prompt in enumerate(prompts)
        ]
        started = time.perf_counter()
        tickets = [engine.submit(request) for request in submitted]
        stats = [ticket.result().stats for ticket in tickets]
        seconds = time.perf_counter() - started
        drawn, drafted = (
            sum(getattr(one, name) for one in stats) for name in ("tokens", "drafted")
        )
        assert drawn == requests * tokens, "a model without an end token makes them all"
        accepted = sum(one.accepted for one in stats) / drafted if drafted else None
        return Sample(1e3 * seconds / drawn, acceptance=accepted)

    return Variant(name, run, over=plain if speculation else None)


def cold(
    subject: TimedModel, engine: Engine, weights: Sequence[float], system: int, question: int
) -> Variant:
    """Time the first token of a formula whose system prompts are not cached."""
    name = "marith, cold"

    def run(turn: int) -> Sample:
        prompt = subject.prompt(len(weights), f"{name} {turn}", system, question)
        return _first(engine, timed_request(prompt, weights, 1, turn))

    return Variant(name, run)


def warm(
    subject: TimedModel, engine: Engine, weights: Sequence[float], system: int, question: int
) -> Variant:
    """Time the first token of a second question under the same system prompts."""
    name = "marith, warm"

    def run(turn: int) -> Sample:
        before = subject.prompt(len(weights), f"{name} {turn}", system, question)
        again = TimedPrompt(subject.text(question, f"{name} {turn}, again"), before.systems)
        engine.submit(timed_request(before, weights, 1, turn)).result()
        return _first(engine, timed_request(again, weights, 1, turn))

    return Variant(name, run)


def _first(engine: Engine, request: Request) -> Sample:
    started = time.perf_counter()
    engine.submit(request).result()
    return Sample(1e3 * (time.perf_counter() - started))


def timed_request(
    prompt: TimedPrompt,
    weights: Sequence[float],
    tokens: int,
    seed: int,
    speculation: Drafts = "auto",
    temperature: float = 1.0,
) -> Request:
    """Return a request for a formula of terms t0, t1, …, with the prompt's system prompts."""
    pairs = [(f"t{i}", weight) for i, weight in enumerate(weights)]
    formula = " ".join(f"{weight:+}*{name}" for name, weight in pairs).removeprefix("+")
    systems = zip(pairs, prompt.systems, strict=True)
    terms = {name: Prompted(text) for (name, _), text in systems}
    sampling, stop = Sampling(temperature=temperature, seed=seed), Stop(tokens)
    return Request(prompt.question, formula, terms, sampling, stop, speculation)
