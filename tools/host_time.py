"""Print the engine's own time for each token of each request, without the time of the model.

Run as `make way`, or as `python -m tools.host_time`. Requests of four terms run together, 32 of
them, or 8 with a large vocabulary. The model's pass costs nothing: it returns logits that were
computed before, through the real runner and engine. `--requests` and `--terms` choose other
numbers. The time of a short text is subtracted from the time of a long one, so neither opening a
request nor reading its prompt counts. The arithmetic's own time is printed beside it: the same
distributions and draws by hand, in a few calls of torch. `--processor` measures the process's own
time, which is more exact while others use the machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from marith import Engine, Request, Sampling, Stop
from marith.testing import tiny_tokenizer

REQUESTS = 32
TERMS = 4  # of the formula M + 0.5*t0 + 0.3*t1 - 0.4*t2 + 0.5*t3 + …
SHORT, LONG = 8, 40  # tokens of a text
ROUNDS = 7
# The sizes of vocabularies, and the number of requests with each.
VOCABULARIES = {256: REQUESTS, 16_000: REQUESTS, 150_000: 8}
NEVER = -30.0  # the logit of the token that ends a text
Speculation = Literal["auto"] | None
Clock = Callable[[], float]


def factors_of(terms: int) -> list[float]:
    """Return the factors of a formula of `terms` terms. Their sum is positive."""
    return [1.0, *islice(cycle((0.5, 0.3, -0.4)), terms - 1)]


class FreeConfig(PreTrainedConfig):
    """A configuration with the size of the vocabulary, and the fields that the engine needs."""

    model_type = "marith-free"
    vocab_size: int = 256
    num_hidden_layers: int = 1
    max_position_embeddings: int = 4096


class FreeModel(PreTrainedModel):
    """A language model whose pass costs nothing: it returns the same logits after every text."""

    config_class = FreeConfig
    # The model takes masks of booleans, as SDPA attention does.
    _supports_sdpa = True
    logits: Tensor

    def __init__(self, config: FreeConfig, seed: int = 0) -> None:
        super().__init__(config)
        logits = torch.randn(config.vocab_size, generator=torch.Generator().manual_seed(seed))
        logits[1] = NEVER
        self.logits = torch.nn.Parameter(logits, requires_grad=False)
        # As rows of their own, because a model's logits are, and reading one row is faster.
        self._made: dict[tuple[int, ...], Tensor] = {}
        self.post_init()  # type: ignore[no-untyped-call]  # transformers leaves it untyped

    def forward(
        self, input_ids: Tensor, logits_to_keep: int | Tensor = 0, **_: Any
    ) -> CausalLMOutputWithPast:
        """Return equal logits [rows, kept, vocab] for tokens [rows, width].

        `logits_to_keep` is the number of kept positions, or their indices; 0 keeps all positions.
        """
        rows, width = input_ids.shape
        kept = len(logits_to_keep) if isinstance(logits_to_keep, Tensor) else logits_to_keep
        shape = rows, kept or width, len(self.logits)
        if shape not in self._made:
            self._made[shape] = self.logits.expand(shape).contiguous()
        logits: Any = self._made[shape]
        return CausalLMOutputWithPast(logits=logits)


@dataclass(frozen=True, slots=True)
class Figure:
    """Microseconds for each token of each request: median, minimum and maximum of rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, seconds: list[float]) -> Figure:
        """Return the figure of rounds, in `seconds` for each request and token."""
        micro = [1e6 * second for second in seconds]
        return cls(statistics.median(micro), min(micro), max(micro))

    def __str__(self) -> str:
        return f"{self.median:.1f} ({self.least:.1f}–{self.most:.1f})"


def engine_of(vocab: int, requests: int = REQUESTS, terms: int = TERMS) -> Engine:
    """Return an engine over the free model, with lanes for `requests` requests at once."""
    words = [f"word{i}" for i in range(vocab - 2)]
    model = FreeModel(FreeConfig(vocab_size=vocab))
    tokenizer = tiny_tokenizer(words)
    return Engine.load(model, tokenizer=tokenizer, max_lanes=requests * terms)


def host_time(
    engine: Engine,
    speculation: Speculation,
    requests: int = REQUESTS,
    rounds: int = ROUNDS,
    clock: Clock = time.perf_counter,
    terms: int = TERMS,
) -> Figure:
    """Return the time of a token of one of `requests`, without the time of opening the requests."""
    run_together(engine, speculation, terms, [LONG] * requests)
    seconds = []
    for _ in range(rounds):
        moments = [clock()]
        for tokens in (SHORT, LONG):
            run_together(engine, speculation, terms, [tokens] * requests)
            moments.append(clock())
        start, middle, end = moments
        seconds.append(((end - middle) - (middle - start)) / (LONG - SHORT) / requests)
    return Figure.of(seconds)


def run_together(
    engine: Engine, speculation: Speculation, terms: int, lengths: Sequence[int]
) -> None:
    """Submit a request of each of these lengths at once, and wait for all of them."""
    _, *factors = factors_of(terms)
    formula = "M" + "".join(f" + {factor}*t{i}" for i, factor in enumerate(factors))
    prompts = {f"t{i}": f"word{i} word{i + 1}" for i in range(len(factors))}
    tickets = [
        engine.submit(
            Request(f"word{i} word7", formula, prompts, Sampling(seed=i), Stop(tokens), speculation)
        )
        for i, tokens in enumerate(lengths)
    ]
    assert [len(ticket.result().tokens) for ticket in tickets] == [*lengths]


@torch.inference_mode()
def arithmetic_time(
    vocab: int,
    requests: int = REQUESTS,
    rounds: int = ROUNDS,
    clock: Clock = time.perf_counter,
    terms: int = TERMS,
) -> tuple[Figure, Figure]:
    """Return the times of the log-probabilities, and of composing and sampling."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(requests, terms, vocab, generator=draw)
    factors = torch.tensor(factors_of(terms))[None, :, None]
    factors /= factors.sum()
    chances = torch.rand(requests, 1, generator=draw)
    scored, composed = [], []
    for _ in range(rounds + 1):
        start = clock()
        logprobs = logits.log_softmax(-1)
        middle = clock()
        mass = (factors * logprobs).sum(1).softmax(-1).cumsum(-1)
        torch.searchsorted(mass, chances * mass[:, -1:]).tolist()
        scored.append((middle - start) / requests)
        composed.append((clock() - middle) / requests)
    return Figure.of(scored[1:]), Figure.of(composed[1:])


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = ROUNDS,
    processor: Annotated[bool, typer.Option(help="Count the process's own time.")] = False,
    requests: Annotated[
        list[int] | None,
        typer.Option(min=1, help="How many requests run together; may be repeated."),
    ] = None,
    terms: Annotated[int, typer.Option(min=1, help="How many terms the formula has.")] = TERMS,
) -> None:
    """Print the table. Figures are medians, with the minimum and the maximum of the rounds."""
    clock = time.process_time if processor else time.perf_counter
    columns = ("None", "auto", "by hand: log-probabilities", "by hand: compose, draw")
    title = f"µs a request and token, {terms} terms"
    table = Table("vocabulary", "requests", *columns, title=title)
    for vocab, usual in VOCABULARIES.items():
        for count in requests or [usual]:
            with engine_of(vocab, count, terms) as engine:
                engines = [
                    host_time(engine, speculation, count, rounds, clock, terms)
                    for speculation in (None, "auto")
                ]
            by_hand = arithmetic_time(vocab, count, 10 * rounds, clock, terms)
            table.add_row(f"{vocab:,}", str(count), *map(str, (*engines, *by_hand)))
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
