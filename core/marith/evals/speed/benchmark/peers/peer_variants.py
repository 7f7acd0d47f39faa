"""All that runs one model beside the engine; who is absent or refuses is named in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from marith.engine.engine import Engine
from marith.engine.threads.workers import run_in_thread
from marith.evals.speed.benchmark import engine_variants
from marith.evals.speed.benchmark.benchmark_settings import BenchmarkSettings
from marith.evals.speed.benchmark.peers.llama_cpp_variants import (
    llama_cpp_models,
    llama_cpp_variants,
)
from marith.evals.speed.benchmark.peers.transformers_peers import (
    generate,
    generate_batch,
    generate_name,
)
from marith.evals.speed.benchmark.rounds import Sample, Variant
from marith.evals.speed.benchmark.timed_model import TimedModel


def peers(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, notes: list[str]
) -> list[Variant]:
    """One term, without drafts, beside others at as many requests; `notes` get who is not here.

    Each is compared with transformers' `generate` on as many prompts.
    """
    batches = _runs("transformers generate_batch", notes, lambda: generate_batch(subject, 1, 2).run)
    models = run_in_thread(lambda: llama_cpp_models(subject, settings, notes))
    found = []
    for count in settings.requests:
        found.append(generate(subject, count, settings.tokens))
        found += [generate_batch(subject, count, settings.tokens)] * batches
        found += llama_cpp_variants(subject, models, count, settings.tokens)
        ours = engine_variants.concurrent(subject, engine, (1.0,), count, settings.tokens)
        found.append(replace(ours, name=f"marith, {ours.name}", over=generate_name(count)))
    return found


def _runs(name: str, notes: list[str], run_of: Callable[[], Callable[[int], Sample]]) -> bool:
    """Whether a peer can be run here; else a note says why it cannot."""
    try:
        run_in_thread(lambda: run_of()(0))
    except Exception as error:
        notes.append(f"{name} refuses: {type(error).__name__}: {error}")
        return False
    return True
