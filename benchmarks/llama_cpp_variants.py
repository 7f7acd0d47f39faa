"""Models of the benchmark's shape in llama.cpp, in its own number types, if it is installed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks.benchmark_settings import BenchmarkSettings
from benchmarks.gguf_file import why_not, write_gguf
from benchmarks.llama_cpp_model import LlamaCppModel, trial
from benchmarks.rounds import Sample, TokenClock, Variant
from benchmarks.timed_model import TimedModel
from benchmarks.transformers_peers import generate_name, prompts_of
from marith.console import counted

NUMBERS = ("f32", "f16", "q8_0", "q4_0")
_SAMPLED = 32  # prompts
_NEEDS = ("llama_cpp", "gguf")


def llama_cpp_models(
    subject: TimedModel,
    settings: BenchmarkSettings,
    notes: list[str],
    texts: int,
    kinds: Sequence[str] = NUMBERS,
) -> dict[str, LlamaCppModel]:
    """Return the model in each number type that llama.cpp runs. Other types are in `notes`.

    The model has room for `texts` texts at once. Weights are repacked (`use_extra_bufts`) unless a
    process that tries it fails: then the notes name the types without repacking, and how the
    process ended.
    """
    absent = [name for name in _NEEDS if find_spec(name) is None]
    if absent:
        notes.append(f"llama.cpp is absent: without {' and '.join(absent)} it is not timed")
        return {}
    if reason := why_not(subject.model):
        notes.append(f"llama.cpp is not timed: {reason}")
        return {}
    lib = import_module("llama_cpp")
    built = lib.llama_print_system_info().decode().strip(" |")
    notes.append(f"llama.cpp is that of llama-cpp-python {lib.__version__}: {built}")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for numbers in kinds:
            path = Path(folder) / f"{numbers}.gguf"
            try:
                found[numbers] = _loaded(subject, settings, path, texts, notes)
            except (RuntimeError, ValueError) as error:
                notes.append(f"llama.cpp refuses {numbers}: {error}")
    return found


def llama_cpp_variants(
    subject: TimedModel, models: Mapping[str, LlamaCppModel], requests: int, tokens: int
) -> list[Variant]:
    """Time `requests` texts at once, one token of each in a step, in each number type."""
    return [_variant(subject, name, model, requests, tokens) for name, model in models.items()]


def llama_cpp_step(
    subject: TimedModel, numbers: str, model: LlamaCppModel, rows: int, tokens: int
) -> Variant:
    """Time a step of `rows` texts, one token of each, without their prompts."""
    name = step_name(numbers, rows)

    def run(turn: int) -> Sample:
        prompts = prompts_of(subject, rows, f"{name} {turn}")
        clock = TokenClock.start()
        model.write(prompts, tokens, seed=turn, drawn=clock.lap)
        return clock.sample()

    return Variant(name, run)


def step_name(numbers: str, rows: int) -> str:
    """Return the name of a step of llama.cpp."""
    return f"llama.cpp {numbers}, {counted(rows, 'row')}"


def _loaded(
    subject: TimedModel, settings: BenchmarkSettings, path: Path, texts: int, notes: list[str]
) -> LlamaCppModel:
    numbers = path.stem
    write_gguf(subject.model, path, numbers)
    prompt, threads = _longest(subject), torch.get_num_threads()
    failure = trial(path, texts, prompt, settings.tokens, threads)
    if failure is None:
        notes.append(f"llama.cpp {numbers}: none of its buffers is off")
    else:
        notes.append(
            f"llama.cpp {numbers}: repacked buffers (use_extra_bufts) are off, since a process "
            f"that tried them {failure}"
        )
    return LlamaCppModel(path, texts, prompt + settings.tokens, threads, repacked=failure is None)


def _longest(subject: TimedModel) -> int:
    """Return the number of tokens of the longest of many prompts."""
    prompts = (subject.prompt(8, f"longest {i}") for i in range(_SAMPLED))
    return max(len(reading) for prompt in prompts for reading in subject.readings(prompt))


def _variant(
    subject: TimedModel, numbers: str, model: LlamaCppModel, requests: int, tokens: int
) -> Variant:
    name = f"llama.cpp {numbers}, {counted(requests, 'request')}"

    def run(turn: int) -> Sample:
        prompts = prompts_of(subject, requests, f"{name} {turn}")
        started = time.perf_counter()
        texts = model.write(prompts, tokens, seed=turn)
        seconds = time.perf_counter() - started
        return Sample(1e3 * seconds / sum(map(len, texts)))

    return Variant(name, run, over=generate_name(requests))
