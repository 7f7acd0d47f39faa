"""Print tokens per second on a GPU: formulas of four terms, and transformers' `generate`.

Run as `python -m tools.gpu_figures`, on a machine with CUDA. Random Llamas of 1 and 7 billion
parameters in bfloat16 generate 64 tokens for each of 1, 16 and 64 requests. The column "reads" is
the time of a step divided by the time of reading the weights once, which is half of the time of
copying as many bytes. `--device cpu --sizes 0.01 --requests 1` tries the program without a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from marith import Engine, Request, Sampling, Stop
from marith.testing import tiny_tokenizer

VOCAB, TOKENS, ROUNDS = 32_000, 64, 3
# By billions of parameters: width, layers, key-value heads, inner width.
SHAPES = {0.01: (128, 2, 2, 256), 1.0: (2048, 16, 8, 8192), 7.0: (4096, 32, 8, 14336)}
TERMS = {f"t{i}": f"w{i} w{i + 7} w{i + 11}" for i in range(1, 4)}
FORMULA = "M + 0.1*t1 + 0.1*t2 - 0.1*t3"


def main() -> None:
    """Time each size, and print a table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--device", default="cuda")
    asked.add_argument("--sizes", type=float, nargs="+", default=[1.0, 7.0])
    asked.add_argument("--requests", type=int, nargs="+", default=[1, 16, 64])
    given = asked.parse_args()
    table = Table("parameters", "requests", "generate", "marith, 4 terms", "ratio", "reads")
    for size in given.sizes:
        model = _model(size, given.device)
        for requests in given.requests:
            table.add_row(f"{size:g} B", str(requests), *_compared(model, requests))
        del model
    Console().print(table)
    name = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    print(f"{name}; torch {torch.__version__}, transformers {transformers.__version__}")


def _model(size: float, device: str) -> Any:
    width, layers, own, inner = SHAPES[size]
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=width, num_hidden_layers=layers, intermediate_size=inner,
        num_attention_heads=width // 64, num_key_value_heads=own, max_position_embeddings=2048,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        return LlamaForCausalLM(config).to(torch.bfloat16).eval()


def _compared(model: Any, requests: int) -> tuple[str, str, str, str]:
    tokenizer = tiny_tokenizer([f"w{i}" for i in range(VOCAB - 2)])
    plain, own = [], []
    with Engine.load(model, tokenizer=tokenizer, max_lanes=4 * requests) as engine:
        for turn in range(ROUNDS + 1):
            seconds = _generate(model, requests, turn), _formula(engine, requests, turn)
            if turn:
                plain.append(seconds[0])
                own.append(seconds[1])
    total = requests * TOKENS
    step = statistics.median(own) / TOKENS
    speeds = [total / statistics.median(one) for one in (plain, own)]
    return (
        f"{speeds[0]:.0f}/s",
        f"{speeds[1]:.0f}/s",
        f"{speeds[1] / speeds[0]:.2f}",
        f"{step / _read(model):.1f}",
    )


def _generate(model: Any, requests: int, turn: int) -> float:
    ids = torch.tensor([[i + turn, 5, 9] for i in range(requests)], device=model.device)
    begun = time.perf_counter()
    model.generate(ids, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=True)
    _wait(model)
    return time.perf_counter() - begun


def _formula(engine: Engine, requests: int, turn: int) -> float:
    begun = time.perf_counter()
    tickets = [
        engine.submit(
            Request(
                f"w{i + turn} w5 w9", FORMULA, TERMS, Sampling(seed=i), Stop(TOKENS),
                speculation=None,
            )
        )
        for i in range(requests)
    ]  # fmt: skip
    for ticket in tickets:
        ticket.result()
    return time.perf_counter() - begun


def _read(model: Any) -> float:
    """Return the seconds that reading all weights takes."""
    size = sum(weight.nbytes for weight in model.parameters())
    weights, times = torch.empty(size, dtype=torch.uint8, device=model.device), []
    copy = torch.empty_like(weights)
    for _ in range(4):
        _wait(model)
        begun = time.perf_counter()
        copy.copy_(weights)
        _wait(model)
        times.append(time.perf_counter() - begun)
    return min(times) / 2


def _wait(model: Any) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
