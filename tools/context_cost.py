"""Print what a token costs after a long text, beside what it costs after a short one.

Run as `python -m tools.context_cost`, on a machine with nothing else to do. For random models of
about 100 million parameters with layers of the kinds that people run: full, windowed, with states,
and mixed. A step reads one token of each text. *Held* is what the long texts' keys, values and
states weigh, and *read* the time to read that once at the measured speed of memory: a step after
long texts cannot do without it. The ratio leaves it out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
import transformers
import typer
from rich.console import Console
from rich.table import Table

from marith.scoring.kv_cache.lanes import Lanes
from marith.scoring.language_model.asked import Asked
from marith.scoring.language_model.runner import Runner, start_runner
from marith.scoring.layouts.packing import pack

VOCAB = 16_000
SHORT, LONG = 20, 2_000  # tokens
_SIZE = {"vocab_size": VOCAB, "hidden_size": 768, "max_position_embeddings": 4096}
_HEADS = {"num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 64}
_EVERY_FOURTH = ["linear_attention"] * 3 + ["full_attention"]
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", {**_HEADS, "num_hidden_layers": 12, "intermediate_size": 2112}),
    "Gemma 3, window 512": (
        "Gemma3Text",
        {**_HEADS, "num_hidden_layers": 12, "intermediate_size": 2112, "sliding_window": 512},
    ),
    "gpt-oss, window 128": (
        "GptOss",
        {
            **_HEADS, "num_hidden_layers": 6, "intermediate_size": 768, "num_local_experts": 8,
            "num_experts_per_tok": 2, "sliding_window": 128,
        },
    ),
    "Qwen3-Next": (
        "Qwen3Next",
        {
            **_HEADS, "num_hidden_layers": 8, "intermediate_size": 2112, "num_experts": 8,
            "num_experts_per_tok": 2, "moe_intermediate_size": 384, "linear_num_value_heads": 12,
            "shared_expert_intermediate_size": 384, "layer_types": _EVERY_FOURTH * 2,
            "linear_num_key_heads": 6, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
        },
    ),
    "Mamba 2": (
        "Mamba2",
        {"num_hidden_layers": 16, "num_heads": 24, "head_dim": 64, "n_groups": 1, "expand": 2},
    ),
    "Falcon-H1": (
        "FalconH1",
        {
            **_HEADS, "num_hidden_layers": 8, "intermediate_size": 2112, "mamba_d_ssm": 1536,
            "mamba_n_heads": 24, "mamba_d_head": 64, "mamba_n_groups": 1,
        },
    ),
}  # fmt: skip


def model_of(kind: str) -> Any:
    """A random model, the same each time."""
    name, sizes = KINDS[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**_SIZE, **sizes)
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config).eval()
    pack(model)
    return model


class Texts:
    """Texts of one length that a runner holds, and that go on by a token each."""

    def __init__(self, runner: Runner, length: int, count: int) -> None:
        self.runner = runner
        draw = torch.Generator().manual_seed(length)
        drawn = torch.randint(0, VOCAB, (count, length), generator=draw).tolist()
        self.prompts = [tuple(prompt) for prompt in drawn]
        self.continuation: list[int] = []
        self._read([Asked((length, i), prompt) for i, prompt in enumerate(self.prompts)])

    def step(self) -> float:
        """The seconds of one step."""
        self.continuation.append(len(self.continuation) % VOCAB)
        length = len(self.prompts[0])
        asked = [
            Asked((length, i), prompt, continuation=[*self.continuation])
            for i, prompt in enumerate(self.prompts)
        ]
        begun = time.perf_counter()
        self._read(asked)
        return time.perf_counter() - begun

    def _read(self, asked: list[Asked]) -> None:
        while asked:
            answers = self.runner.ask(asked)
            pairs = zip(asked, answers, strict=True)
            asked = [one for one, answer in pairs if answer is None]


def read_speed() -> float:
    """Bytes a second of a sum over 400 MB, the best of five."""
    numbers = torch.ones(100_000_000)
    return numbers.nbytes / min(_seconds(numbers.sum) for _ in range(5))


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def held(runner: Any) -> int:
    """Bytes of keys, values and states."""
    if isinstance(lanes := getattr(runner, "lanes", None), Lanes):
        return int(getattr(lanes, "nbytes", 0))
    return sum(state.nbytes for state in runner.states.held.values())


def rows(kinds: list[str], counts: list[int], rounds: int) -> Iterator[tuple[str, ...]]:
    """The table, a row for each kind of model and number of texts."""
    speed = read_speed()
    for kind in kinds:
        model = model_of(kind)
        size = sum(weight.numel() for weight in model.parameters()) / 1e6
        for count in counts:
            runner = start_runner(model, VOCAB, 4096)
            long = Texts(runner, LONG, count)
            weight = held(runner)
            short = Texts(runner, SHORT, count)
            times: list[tuple[float, float]] = [(short.step(), long.step()) for _ in range(rounds)]
            before, after = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
            reading = weight / speed * 1e3
            yield (
                kind, f"{size:.0f} M", str(count), f"{before:.1f}", f"{after:.1f}",
                f"{weight / 1e6:.1f}", f"{reading:.1f}", f"{(after - reading) / before:.2f}",
            )  # fmt: skip


def main(
    only: Annotated[list[str] | None, typer.Option(help="Kinds of models; all by default.")] = None,
    counts: Annotated[list[int] | None, typer.Option(help="Numbers of texts: 1 and 4.")] = None,
    rounds: Annotated[int, typer.Option(help="Steps of each.")] = 25,
) -> None:
    """Print the table."""
    table = Table(
        "model", "size", "texts", "ms at 20", "ms at 2,000", "held, MB", "read, ms", "ratio"
    )
    for row in rows(only or [*KINDS], counts or [1, 4], rounds):
        table.add_row(*row)
        Console(stderr=True).print(*row)
    Console(width=100).print(table)


if __name__ == "__main__":
    typer.run(main)
