"""The public door: a base model, and formulas spoken over it."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from torch import Tensor

from marith.decoding.sampling import Sampling
from marith.decoding.stopping import Stop
from marith.engine.job import Generation, Judgement
from marith.engine.request import Reader, Request
from marith.engine.scheduler import Scheduler
from marith.engine.ticket import Chunk, Completion, Ticket
from marith.errors import EngineClosed, ModelError, RequestError
from marith.formula.binding import Terms
from marith.formula.nodes import Formula
from marith.formula.terms import Prompted
from marith.scoring import shelf
from marith.scoring.panel import Panel
from marith.scoring.scorer import Message
from marith.scoring.shelf import Checkpoint, Placement
from marith.scoring.templates import to_messages

loading = threading.RLock()  # the shelf, the panels and their readings are used in turns
_shared: dict[tuple[str, Placement, int], Engine] = {}

MAX_LANES = 64


class Engine:
    """Formulas over one base model, for any number of callers in threads and tasks.

    One thread owns the models. `generate` and `stream` block, `agenerate` and `astream` await;
    all are lines over `submit`. A closed, cancelled or forgotten request frees its lanes.
    """

    def __init__(self, base: Checkpoint, max_lanes: int = MAX_LANES) -> None:
        with loading:
            self._panel = Panel(base)
        self._scheduler = Scheduler(max_lanes)
        self._closing = weakref.finalize(self, self._scheduler.close)

    @classmethod
    def load(
        cls,
        model: Any = "pocket",
        *,
        tokenizer: Any = None,
        device: str | None = None,
        dtype: str | None = None,
        max_lanes: int = MAX_LANES,
        context_length: int | None = None,
        revision: str | None = None,
    ) -> Engine:
        """An engine over "pocket", a directory, a hub id, or a loaded model with `tokenizer`.

        `device` and `dtype` default to what the machine has; `context_length` is in tokens.
        Weights are safetensors and no code of a checkpoint is run. Raises ModelError.
        """
        _check_lanes(max_lanes)
        placement = Placement(device, dtype, revision, context_length)
        with loading:
            if isinstance(model, str):
                if tokenizer is not None:
                    raise ModelError(f"{model!r} brings its own tokenizer")
                return cls(shelf.language_model(model, placement), max_lanes)
            return cls(shelf.from_loaded(model, tokenizer, placement), max_lanes)

    @classmethod
    def shared(
        cls,
        model: str = "pocket",
        *,
        device: str | None = None,
        dtype: str | None = None,
        max_lanes: int = MAX_LANES,
        context_length: int | None = None,
        revision: str | None = None,
    ) -> Engine:
        """The process's one engine for these options, loaded when first asked for."""
        _check_lanes(max_lanes)
        placement = Placement(device, dtype, revision, context_length)
        with loading:
            key = shelf.locate(model), placement, max_lanes
            if key not in _shared or _shared[key].closed:
                _shared[key] = cls(shelf.language_model(model, placement), max_lanes)
            return _shared[key]

    @property
    def model_name(self) -> str:
        """The base model as it was named."""
        return self._panel.base.checkpoint.name

    @property
    def context_length(self) -> int:
        """How many tokens the base model reads at most."""
        return self._panel.base.context_length

    @property
    def closed(self) -> bool:
        """Whether the engine serves no more."""
        return not self._closing.alive

    def submit(self, request: Request) -> Ticket:
        """Start a request. Raises FormulaError, RequestError or ModelError for a bad one."""
        ticket = Ticket(keeper=self)
        reader = self._open(request.prompt, request.formula, request.terms)
        self._scheduler.add(Generation(request, reader, self._panel.vocabulary, ticket))
        return ticket

    def generate(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Literal["auto"] | None = "auto",
    ) -> Completion:
        """The whole text, once it is finished."""
        return self.submit(Request(prompt, formula, terms, sampling, stop, speculation)).result()

    def stream(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Literal["auto"] | None = "auto",
    ) -> Iterator[Chunk]:
        """The text as it comes."""
        return iter(self.submit(Request(prompt, formula, terms, sampling, stop, speculation)))

    async def agenerate(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Literal["auto"] | None = "auto",
    ) -> Completion:
        """The whole text, without holding up the event loop."""
        request = Request(prompt, formula, terms, sampling, stop, speculation)
        return await (await asyncio.to_thread(self.submit, request))

    async def astream(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Literal["auto"] | None = "auto",
    ) -> AsyncIterator[Chunk]:
        """The text as it comes, without holding up the event loop."""
        request = Request(prompt, formula, terms, sampling, stop, speculation)
        ticket = await asyncio.to_thread(self.submit, request)
        async with aclosing(ticket.__aiter__()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    def next_logprobs(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        continuation: str | Sequence[int] = (),
    ) -> Tensor:
        """The composed log-distribution of the next token, [vocab] in float32."""
        _, logprobs = self._judge(prompt, continuation, formula, terms)
        return logprobs[-1].clone()

    def score(
        self,
        prompt: str | Sequence[Message],
        continuation: str | Sequence[int],
        formula: str | Formula = "M",
        terms: Terms | None = None,
    ) -> list[float]:
        """The composed log-probability of each token of the continuation."""
        tokens, logprobs = self._judge(prompt, continuation, formula, terms)
        return [float(row[token]) for row, token in zip(logprobs, tokens, strict=False)]

    def encode(self, text: str) -> list[int]:
        """A text as tokens of the base model's vocabulary; names of special tokens are letters."""
        return self._panel.vocabulary.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens of the base model's vocabulary as text, special tokens left out."""
        return self._panel.vocabulary.decode(tokens)

    def count_tokens(self, prompt: str | Sequence[Message]) -> int:
        """How many tokens a prompt has as the bare model reads it, its chat template included."""
        return self._panel.base.count(Prompted(), to_messages(prompt))

    def close(self) -> None:
        """Stop serving: open requests get EngineClosed. The weights go with the last reference."""
        self._closing()
        with loading:
            for key in [key for key, engine in _shared.items() if engine is self]:
                del _shared[key]

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(
        self, prompt: str | Sequence[Message], formula: str | Formula, terms: Terms | None
    ) -> Reader:
        if self.closed:
            raise EngineClosed("the engine is closed")
        with loading:
            return Reader.open(prompt, formula, terms, self._panel)

    def _judge(
        self,
        prompt: str | Sequence[Message],
        continuation: str | Sequence[int],
        formula: str | Formula,
        terms: Terms | None,
    ) -> tuple[list[int], Tensor]:
        reader = self._open(prompt, formula, terms)
        vocabulary = self._panel.vocabulary
        given = vocabulary.encode(continuation) if isinstance(continuation, str) else continuation
        tokens = list(given)
        for token in tokens:
            if not isinstance(token, int) or not 0 <= token < vocabulary.size:
                raise RequestError(f"{token!r} is no token of {vocabulary.size}")
        if len(tokens) > reader.room:
            raise RequestError(
                f"the continuation has {len(tokens)} tokens; there is room for {reader.room}"
            )
        judgement = Judgement(reader, tokens)
        self._scheduler.add(judgement)
        return tokens, judgement.answer.result()


def _check_lanes(max_lanes: int) -> None:
    if isinstance(max_lanes, bool) or not isinstance(max_lanes, int) or max_lanes < 1:
        raise RequestError(f"max_lanes is a whole number from 1, not {max_lanes!r}")
