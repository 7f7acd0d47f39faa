"""Other programs that run one model beside the engine. A sentence says which are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks import engine_variants, step_variants
from benchmarks.benchmark_settings import BenchmarkSettings
from benchmarks.llama_cpp_variants import (
    llama_cpp_models,
    llama_cpp_step,
    llama_cpp_variants,
    step_name,
)
from benchmarks.rounds import Sample, Variant
from benchmarks.timed_model import TimedModel
from benchmarks.transformers_peers import (
    generate,
    generate_batch,
    generate_name,
)
from marith.console import counted
from marith.engine.engine import Engine
from marith.engine.threads.workers import run_in_thread

# llama.cpp's type whose bits are as many.
LIKE = {"float32": "f32", "bfloat16": "f16", "float16": "f16"}


def peers(
    subject: TimedModel, engine: Engine, settings: BenchmarkSettings, notes: list[str]
) -> list[Variant]:
    """Time one term without drafts beside other programs. `notes` say which are missing.

    Each is compared with transformers' `generate` on the same number of prompts.
    """
    batches = _runs("transformers generate_batch", notes, lambda: generate_batch(subject, 1, 2).run)
    texts = max(settings.requests)
    models = run_in_thread(lambda: llama_cpp_models(subject, settings, notes, texts))
    found = []
    for count in settings.requests:
        found.append(generate(subject, count, settings.tokens))
        found += [generate_batch(subject, count, settings.tokens)] * batches
        found += llama_cpp_variants(subject, models, count, settings.tokens)
        ours = engine_variants.concurrent(subject, engine, (1.0,), count, settings.tokens)
        found.append(replace(ours, name=f"marith, {ours.name}", over=generate_name(count)))
    return found


def step_peers(
    subject: TimedModel,
    engine: Engine,
    settings: BenchmarkSettings,
    notes: list[str],
    formulas: Sequence[tuple[Sequence[float], int]],
) -> list[Variant]:
    """Time steps of requests of these formulas, beside llama.cpp with numbers of equal width.

    Each step is compared with a step of llama.cpp with as many rows.
    """
    numbers = LIKE.get(settings.dtype, "")
    texts = max(requests * len(weights) for weights, requests in formulas)
    models = {}
    if numbers:
        models = run_in_thread(lambda: llama_cpp_models(subject, settings, notes, texts, [numbers]))
    else:
        notes.append(f"llama.cpp is not timed: it has no numbers like {settings.dtype}")
    found = []
    for weights, requests in formulas:
        rows = requests * len(weights)
        if models:
            found.append(llama_cpp_step(subject, numbers, models[numbers], rows, settings.tokens))
        ours = step_variants.step(subject, engine, weights, requests, settings.tokens)
        over = step_name(numbers, rows) if models else None
        found.append(replace(ours, name=f"marith, {counted(rows, 'row')}", over=over))
    return found


def _runs(name: str, notes: list[str], run_of: Callable[[], Callable[[int], Sample]]) -> bool:
    """Return True if a program runs here. Otherwise add a note with the reason."""
    try:
        run_in_thread(lambda: run_of()(0))
    except Exception as error:
        notes.append(f"{name} refuses: {type(error).__name__}: {error}")
        return False
    return True
