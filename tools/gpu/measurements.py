"""Time formulas of four terms over a random Llama, and transformers' `generate` beside them.

An engine loads the model by its name, so that its modules are fused as they are for users.
`generate` runs the model as transformers makes it.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from marith import Engine, Request, Sampling, Stop
from marith.scoring.passes.rectangle.cuda_graphs import Captured
from marith.testing import tiny_tokenizer
from tools.fixed_shapes import runner_of

VOCAB = 32_000
# By billions of parameters: width, layers, key-value heads, inner width.
SHAPES = {0.01: (128, 2, 2, 256), 1.0: (2048, 16, 8, 8192), 7.0: (4096, 32, 8, 14336)}
PROMPTS = {f"t{i}": f"w{i} w{i + 7} w{i + 11}" for i in range(1, 4)}
FORMULA = "M + 0.1*t1 + 0.1*t2 - 0.1*t3"
TERMS = 1 + len(PROMPTS)
# A term's own words come before those of the prompt.
TEMPLATE = "{% for message in messages %}{{ message.content + ' ' }}{% endfor %}"
WORDS = 3  # of a term, and of a short prompt
REPLAYS = 10


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of an answer, of an answer in steady state and of a long prompt; and the rounds."""

    answer: int = 64
    steady: int = 256
    prompt: int = 1000
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds of a step: in whole answers, between two long answers, and of its graph alone."""

    whole: float
    steady: float
    graph: float | None


@dataclass(frozen=True, slots=True)
class LongPrompts:
    """Seconds of whole answers to long prompts. The floor is `generate` and a graph for a token."""

    whole: float
    floor: float | None


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds to the first token after one long prompt, and of `generate` of as many rows."""

    formula: float
    generate: float


@dataclass(slots=True)
class Figures:
    """The figures of one size. Steps and long prompts are by their numbers of requests.

    `read` is the time of reading all weights once, in seconds. `generate` has the time of a step of
    `generate` for each number of rows.
    """

    parameters: int
    read: float
    steps: dict[int, Steps] = field(default_factory=dict)
    prompts: dict[int, LongPrompts] = field(default_factory=dict)
    first: FirstToken | None = None
    generate: dict[int, float] = field(default_factory=dict)


class Subject:
    """A random Llama in bfloat16, in memory and in a folder, and the figures of it so far."""

    def __init__(self, size: float, device: str, folder: Path, lengths: Lengths) -> None:
        self.lengths, self._folder, self._device = lengths, folder, device
        self.model = _model(size, device, lengths)
        free_unused()
        self.model.save_pretrained(folder)
        tokenizer = tiny_tokenizer([f"w{i}" for i in range(VOCAB - 2)], chat_template=TEMPLATE)
        # Without a token that ends texts, all answers have their full length.
        tokenizer.eos_token = None
        tokenizer.save_pretrained(folder)
        # Engines share the weights as long as one of them holds them.
        self._holder = self.engine(1)
        self.figures = Figures(self.model.num_parameters(), self._read())
        free_unused()

    def close(self) -> None:
        """Close the engine that holds the weights."""
        self._holder.close()

    def engine(self, requests: int) -> Engine:
        """Return an engine over the folder, with lanes for `requests` requests at once."""
        return Engine.load(
            self._folder, device=self._device, dtype="bfloat16", max_lanes=TERMS * requests
        )

    def measure_steps(self, requests: int) -> None:
        """Time the steps of short prompts, and their graphs alone."""
        answer, steady = self.lengths.answer, self.lengths.steady
        with self.engine(requests) as engine:
            whole = partial(self._answer, engine, requests, WORDS, answer)
            more = partial(self._answer, engine, requests, WORDS, steady)
            # The first long answers capture the graphs of all lengths.
            more(0)
            seconds = [self._median(each) for each in (whole, more)]
            self.figures.steps[requests] = Steps(
                seconds[0] / answer,
                (seconds[1] - seconds[0]) / (steady - answer),
                self._graph(engine, requests, WORDS + answer, WORDS + steady),
            )

    def measure_prompts(self, requests: int) -> None:
        """Time whole answers to long prompts, and `generate` of one token beside them."""
        answer, prompt = self.lengths.answer, self.lengths.prompt
        with self.engine(requests) as engine:
            whole = partial(self._answer, engine, requests, prompt, answer)
            whole(0)
            seconds = self._median(whole)
            graph = self._graph(engine, requests, prompt, prompt + answer)
        first = self._generate(TERMS * requests, prompt, 1)
        floor = None if graph is None else first + answer * graph
        self.figures.prompts[requests] = LongPrompts(seconds, floor)

    def measure_first_token(self) -> None:
        """Time the first token after one long prompt, and `generate` of one token beside it."""
        with self.engine(1) as engine:
            first = partial(self._answer, engine, 1, self.lengths.prompt, 1)
            first(0)
            seconds = self._median(first)
        generate = self._generate(TERMS, self.lengths.prompt, 1)
        self.figures.first = FirstToken(seconds, generate)

    def measure_generate(self, rows: int) -> None:
        """Time the steps of `generate` after short prompts."""
        answer = self.lengths.answer
        self.figures.generate[rows] = self._generate(rows, WORDS, answer) / answer

    def _answer(self, engine: Engine, requests: int, words: int, tokens: int, turn: int) -> float:
        """Return the seconds of answers to prompts that no other turn has."""
        begun = time.perf_counter()
        tickets = [
            engine.submit(
                Request(
                    _prompt(words, turn * requests + i), FORMULA, PROMPTS, Sampling(seed=i),
                    Stop(tokens), speculation=None,
                )
            )
            for i in range(requests)
        ]  # fmt: skip
        for ticket in tickets:
            ticket.result()
        return time.perf_counter() - begun

    @torch.inference_mode()
    def _graph(self, engine: Engine, requests: int, first: int, end: int) -> float | None:
        """Return the mean seconds of the graphs of steps at these places, each replayed alone.

        Without CUDA, the passes of the graphs are computed instead. Return None if there are no
        graphs of these steps.
        """
        captured = runner_of(engine).captured
        # If the cache has moved since, its graphs would write to memory that is not theirs.
        if not isinstance(captured, Captured) or captured._version != captured.cache.version:
            return None
        steps = [*captured._steps.values()]
        sizes = {step.inputs.shape[1] for step in steps if step.inputs.shape[1] >= TERMS * requests}
        alone: dict[int, float] = {}
        for step in steps:
            if step.inputs.shape[1] == min(sizes, default=0):
                run = partial(captured._pass, step) if step.graph is None else step.graph.replay
                alone[step.seen] = self._seconds(run)
        # The longest texts have the words of a term before the prompt.
        places = range(WORDS + first, WORDS + end)
        seen = [min((most for most in alone if most > place), default=0) for place in places]
        return statistics.mean(alone[most] for most in seen) if all(seen) else None

    def _generate(self, rows: int, words: int, tokens: int) -> float:
        """Return the seconds in which `generate` adds tokens to rows of `words` tokens."""

        def run(turn: int) -> float:
            begun = time.perf_counter()
            ids = torch.arange(rows * words).view(rows, words) + 31 * turn
            options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": True}
            self.model.generate((ids % VOCAB).to(self._device), **options)
            self._synchronise()
            return time.perf_counter() - begun

        run(0)
        return self._median(run)

    def _median(self, run: Callable[[int], float]) -> float:
        """Return the median of the seconds of all rounds but round 0, which warms up."""
        return statistics.median(run(turn + 1) for turn in range(self.lengths.rounds))

    def _read(self) -> float:
        """Return the seconds of reading all weights: half of those of copying as many bytes."""
        size = sum(weight.nbytes for weight in self.model.parameters())
        weights = torch.empty(size, dtype=torch.uint8, device=self._device)
        copy = torch.empty_like(weights)
        return self._seconds(partial(copy.copy_, weights)) / 2

    def _seconds(self, run: Callable[[], object]) -> float:
        """Return the median of the seconds in which a device computes something alone."""
        seconds = []
        for _ in range(REPLAYS):
            self._synchronise()
            begun = time.perf_counter()
            run()
            self._synchronise()
            seconds.append(time.perf_counter() - begun)
        return statistics.median(seconds)

    def _synchronise(self) -> None:
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()


def free_unused() -> None:
    """Free memory that nothing uses, so that an engine sees how much is free."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _model(size: float, device: str, lengths: Lengths) -> Any:
    width, layers, own, inner = SHAPES[size]
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=width, num_hidden_layers=layers, intermediate_size=inner,
        num_attention_heads=width // 64, num_key_value_heads=own,
        max_position_embeddings=2 * max(1024, lengths.prompt), bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        model: Any = LlamaForCausalLM(config)
        return model.to(torch.bfloat16).eval()


def _prompt(words: int, number: int) -> str:
    """Return a prompt of `words` words, which differs from other prompts in its first word."""
    return " ".join(f"w{(101 * number + 13 * i) % (VOCAB - 2)}" for i in range(words))
