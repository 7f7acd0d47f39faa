"""Print what adapters, early exits and windows cost beside a plain step of fused layers.

Run as `python -m tools.fused_cost`, on a machine with nothing else to do. A random Llama of 97
million parameters reads one token of each of eight texts; so does a Mistral of its size, whose
layers have windows. Steps are timed in turn.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from marith.scoring.language_model.asked import Asked
from marith.scoring.language_model.lora import Adapter, read
from marith.scoring.language_model.runner import Runner, start_runner
from marith.scoring.layouts.laying_out import lay_out

TEXTS, LENGTH, STEPS, TURNS = 8, 64, 8, 7
VOCAB, CONTEXT, WINDOW, RANK = 16_000, 1024, 32, 16
EXIT = 6  # of twelve layers
_SIZE: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "num_key_value_heads": 12, "intermediate_size": 2048, "max_position_embeddings": 2048,
}  # fmt: skip


def main() -> None:
    """Time all of them in turn, and print the table."""
    torch.manual_seed(0)
    llama, mistral = LlamaConfig(**_SIZE), MistralConfig(**_SIZE, sliding_window=WINDOW)
    plain, windowed = LlamaForCausalLM(llama).eval(), MistralForCausalLM(mistral).eval()
    adapters = _adapters(plain)
    for model in (plain, windowed):
        lay_out(model)
    own, other = (start_runner(model, VOCAB, CONTEXT) for model in (plain, windowed))
    mixed = [adapters[i % len(adapters)] for i in range(TEXTS)]
    ways: dict[str, Callable[[int], float]] = {
        "plain": lambda turn: _timed(own, f"plain {turn}"),
        "three adapters, mixed": lambda turn: _timed(own, f"adapters {turn}", mixed),
        f"left after layer {EXIT} too": lambda turn: _timed(own, f"exits {turn}", exits=(EXIT,)),
        f"windows of {WINDOW}": lambda turn: _timed(other, f"windows {turn}"),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS):
        for name, run in ways.items():
            seconds = run(turn)
            if turn:
                times[name].append(1e3 * seconds)
    table = Table("", "ms a step", "over plain")
    for name, found in times.items():
        ratios = (a / b for a, b in zip(found, times["plain"], strict=True))
        table.add_row(name, f"{statistics.median(found):.1f}", f"{statistics.median(ratios):.2f}")
    Console().print(table)


@torch.inference_mode()
def _timed(
    runner: Runner, name: str, adapters: list[Adapter] | None = None, exits: tuple[int, ...] = ()
) -> float:
    """Seconds a step, of texts that nobody has read before."""
    draw = torch.Generator().manual_seed(hash(name) % 2**31)
    texts = torch.randint(2, VOCAB, (TEXTS, LENGTH + STEPS + 1), generator=draw).tolist()

    def step(end: int) -> None:
        left = [
            Asked(
                (name, i),
                text[:LENGTH],
                1,
                adapters[i] if adapters else None,
                exits,
                text[LENGTH:end],
            )
            for i, text in enumerate(texts)
        ]
        while left:
            answers = runner.ask(left)
            left = [asked for asked, answer in zip(left, answers, strict=True) if answer is None]

    step(LENGTH)
    step(LENGTH + 1)
    begun = time.perf_counter()
    for end in range(LENGTH + 2, LENGTH + 2 + STEPS):
        step(end)
    seconds = (time.perf_counter() - begun) / STEPS
    for i in range(TEXTS):
        runner.release((name, i))
    return seconds


def _adapters(model: Any) -> list[Adapter]:
    """Three of one rank over every linear layer."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(3):
            torch.manual_seed(seed)
            config = LoraConfig(r=RANK, target_modules="all-linear", init_lora_weights=False)
            adapted = get_peft_model(model, config)
            path = str(Path(folder) / str(seed))
            adapted.save_pretrained(path, save_embedding_layers=False)
            model = adapted.unload()
            found.append(read(path, model))
    return found


if __name__ == "__main__":
    main()
