"""Print what a formula costs by the llama.cpp backend, beside llama.cpp alone, and its memory.

Run as `python -m tools.llama_cpp_cost`, after `make llamacpp`, on a machine that does nothing else.
A random Llama of 97 million parameters is written in four types of numbers. A step of a formula of
1, 4 and 8 terms and a step of as many texts of llama.cpp's own are timed in turn. Memory is that of
a process of its own, which loads the file and reads a long text.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from marith import Engine, Sampling, Stop
from marith.evals.speed.benchmark.peers.llama_cpp_model import LlamaCppModel, trial
from marith.testing.gguf_file import write_gguf
from marith.testing.models import byte_tokenizer

NUMBERS, ROWS = ("f32", "f16", "q8_0", "q4_0"), (1, 4, 8)
VOCAB, TOKENS, ROUNDS = 16_000, 24, 6
QUESTION = "Say what the sea is like, and why so many people are fond of it."
_SIZE: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "num_key_value_heads": 12, "intermediate_size": 2048, "max_position_embeddings": 2048,
}  # fmt: skip


def main() -> None:
    """Time all, and print two tables."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**_SIZE, bos_token_id=None, eos_token_id=None)).eval()
    steps = Table("", *(f"{rows} rows: ms, llama.cpp's, ratio" for rows in ROWS))
    memory = Table("", "MB of the file and its cache", "MB that the process grew by", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        for numbers in NUMBERS:
            path = Path(folder) / f"{numbers}.gguf"
            write_gguf(model, path, numbers, words_tokenizer(VOCAB), splits="gpt-2")
            steps.add_row(numbers, *(_compared(path, rows) for rows in ROWS))
            memory.add_row(numbers, *_weighed(path))
    console = Console()
    console.print(steps, memory)


def weigh(path: str) -> None:
    """Print bytes: of the file, of the cache, and that this process has grown by."""
    with Engine.load("pocket") as engine:  # what every engine imports
        engine.next_logprobs("the sea")
    before = psutil.Process().memory_info().rss
    with Engine.load(path, backend="llama.cpp") as engine:
        engine.next_logprobs("the sea " * 150)
        cache = engine._registry.cache_limit.nbytes
        print(Path(path).stat().st_size, cache, psutil.Process().memory_info().rss - before)


def _compared(path: Path, rows: int) -> str:
    """Medians over the rounds of a step's milliseconds."""
    threads = torch.get_num_threads()
    repacked = trial(path, rows, 128, 4, threads) is None
    own, theirs = [], []
    with Engine.load(path, backend="llama.cpp") as engine:
        peer = LlamaCppModel(path, rows, 256, threads, repacked)
        for turn in range(ROUNDS + 1):
            terms = {f"t{i}": f"You are number {i} of turn {turn}." for i in range(1, rows)}
            formula = "M" + "".join(f" + 0.1*{name}" for name in terms)
            mine = _gaps_of_formula(engine, formula, terms, turn)
            prompts = [engine.encode(f"{turn} {i} {QUESTION}") for i in range(rows)]
            other = _gaps_of_texts(peer, prompts, turn)
            if turn:
                own.append(statistics.median(mine))
                theirs.append(statistics.median(other))
    mine, other = statistics.median(own), statistics.median(theirs)
    ratio = statistics.median(a / b for a, b in zip(own, theirs, strict=True))
    return f"{1e3 * mine:.1f}, {1e3 * other:.1f}, {ratio:.2f}"


def _gaps_of_formula(engine: Engine, formula: str, terms: dict[str, str], seed: int) -> list[float]:
    times = []
    for _ in engine.stream(
        QUESTION, formula, terms, Sampling(seed=seed), Stop(TOKENS), speculation=None
    ):
        times.append(time.perf_counter())
    return [after - before for before, after in pairwise(times)]


def _gaps_of_texts(peer: LlamaCppModel, prompts: list[list[int]], seed: int) -> list[float]:
    times: list[float] = []
    peer.write(prompts, TOKENS, seed, lambda: times.append(time.perf_counter()))
    return [after - before for before, after in pairwise(times)]


def _weighed(path: Path) -> tuple[str, str, str]:
    code = f"from tools.llama_cpp_cost import weigh; weigh({str(path)!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    file, cache, grown = map(int, done.stdout.split())
    return f"{(file + cache) / 1e6:.0f}", f"{grown / 1e6:.0f}", f"{grown / (file + cache):.2f}"


def words_tokenizer(count: int) -> Any:
    """A byte-level tokenizer of `count` tokens."""
    return byte_tokenizer([f"word{i}" for i in range(count - 257)])


if __name__ == "__main__":
    main()
