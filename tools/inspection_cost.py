"""Print what it costs to inspect a text, beside what it costs to score it.

Run as `python -m tools.inspection_cost`, on a machine with nothing else to do: a random Llama of 97
million parameters with 16,000 tokens of vocabulary, and the same layers with 150,000. The texts are
new in every round, so that neither finds keys of the other, and the two take turns. Terms are not
left out: that costs one more evaluation for each of them. The bars are those of `BARS`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from transformers import LlamaConfig, LlamaForCausalLM

from marith import Engine
from marith.testing import tiny_tokenizer

BARS = {16_000: 1.3, 150_000: 2.0}  # vocabulary → most times the cost of scoring
SIZES: dict[str, Any] = {"hidden_size": 768, "num_hidden_layers": 13, "num_attention_heads": 12,
         "num_key_value_heads": 4, "intermediate_size": 2144}  # fmt: skip
FORMULA, TERMS = "2*x - M", {"x": "w5 w6 w7"}


@dataclass(frozen=True)
class Cost:
    """Median seconds to score and to inspect a text, and the median of the rounds' ratios."""

    vocab: int
    parameters: int
    tokens: int
    scoring: float
    inspecting: float
    ratio: float


def model_of(vocab: int) -> Any:
    """A random Llama with so many tokens."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(vocab_size=vocab, tie_word_embeddings=True, bos_token_id=0,
                             eos_token_id=1, **SIZES)  # fmt: skip
        return LlamaForCausalLM(config).eval()


def costs(vocab: int, tokens: int, rounds: int, top: int) -> Cost:
    """Measure, after one round that counts for nothing."""
    model = model_of(vocab)
    tokenizer = tiny_tokenizer([f"w{i}" for i in range(vocab - 2)])
    with Engine.load(model, tokenizer=tokenizer) as engine:
        pairs = list(_rounds(engine, vocab, tokens, rounds + 1, top))[1:]
    scoring, inspecting = zip(*pairs, strict=True)
    return Cost(
        vocab,
        sum(parameter.numel() for parameter in model.parameters()),
        tokens,
        statistics.median(scoring),
        statistics.median(inspecting),
        statistics.median(b / a for a, b in pairs),
    )


def _rounds(
    engine: Engine, vocab: int, tokens: int, rounds: int, top: int
) -> Iterator[tuple[float, float]]:
    """Seconds to score a new text, and to inspect another one as long."""
    draw = Random(7)
    for salt in range(rounds):
        texts = [[draw.randrange(2, vocab) for _ in range(tokens)] for _ in range(2)]
        begun = time.perf_counter()
        engine.score("w3 w4", texts[0], FORMULA, TERMS, cache_salt=f"{salt} scored")
        between = time.perf_counter()
        engine.inspect("w3 w4", texts[1], FORMULA, TERMS, top=top, leave_one_out=False,
                       cache_salt=f"{salt} inspected")  # fmt: skip
        yield between - begun, time.perf_counter() - between


def main(
    rounds: Annotated[int, typer.Option(help="Pairs of texts.")] = 5,
    tokens: Annotated[int, typer.Option(help="Tokens of a text.")] = 128,
    top: Annotated[int, typer.Option(help="Likeliest tokens of each position.")] = 10,
) -> None:
    """Print a line for each vocabulary."""
    console = Console()
    for vocab, bar in BARS.items():
        cost = costs(vocab, tokens, rounds, top)
        console.print(
            f"{vocab:,} tokens, {cost.parameters / 1e6:.0f} M parameters: scoring "
            f"{1e3 * cost.scoring / tokens:.2f} ms a token, inspecting "
            f"{1e3 * cost.inspecting / tokens:.2f}: {cost.ratio:.2f} times (bar {bar})",
            highlight=False,
        )


if __name__ == "__main__":
    typer.run(main)
