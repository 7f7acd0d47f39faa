"""The public door: a base model, and requests for formulas over it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from typing import Any, Literal, Unpack

from torch import Tensor

from marith.answers.answer_grammar import AnswerGrammars
from marith.engine.calibrate import SAMPLE, Work, calibrate, check_samples
from marith.engine.call import ScoringOptions, scoring_request
from marith.engine.entrypoints import Entrypoints
from marith.engine.jobs.generation import Generation
from marith.engine.jobs.queries import NextLogprobs, Query, Result, Scores, Scoring, tokens_of
from marith.engine.prepare import Prepared, prepare
from marith.engine.threads import workers
from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.threads.engine_thread import EngineThread
from marith.engine.threads.futures import EngineFuture
from marith.engine.threads.workers import LoadingLock, forked, require_not_forked
from marith.engine.ticket import Ticket
from marith.engine.tokens import TokenCalls
from marith.errors import ModelError, RequestError, faults_named, names_checked, shown
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.request.checks import memory_limits, whole
from marith.request.limits import OTHER_NAMES, EngineStatus, Limits
from marith.request.plan import Plan
from marith.request.prompt import AnyPrompt, Message
from marith.request.request import Request
from marith.request.sampling import Sampling
from marith.scoring.memory import free_memory
from marith.scoring.registry import Registry, device_of, require_lanes
from marith.scoring.weights import loader
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.locate import locate
from marith.scoring.weights.placing import Placement

loading = LoadingLock()
_shared: dict[tuple[str, Placement, Limits], Engine] = {}
_DEFAULT = Limits()
_placement = lru_cache(maxsize=16, typed=True)(Placement)  # each call of an adapter makes one
_limits = lru_cache(maxsize=16, typed=True)(Limits)


class Engine(Entrypoints, TokenCalls):
    """Formulas over one base model, for any number of callers in threads and tasks.

    One thread owns the models. A request that is cancelled, or that nobody holds, frees its lanes.
    In a child that was forked from the process every call raises EngineClosed: start processes by
    spawn.
    """

    def __init__(self, base: Checkpoint, limits: Limits = _DEFAULT) -> None:
        with loading:
            limits = limits.with_memory(free_memory(device_of(base)))
            require_lanes(base, limits.max_lanes)
            bounds = limits.cache_bytes or 0, limits.loaded_bytes
            registry = self._loaded = workers.run_in_thread(lambda: Registry(base, *bounds))
        self.answers = AnswerGrammars(base.vocabulary)
        self._thread = EngineThread(limits, registry.room, base.threads, device_of(base))
        self._closing = weakref.finalize(self, self._thread.close)

    @classmethod
    @names_checked(instead=OTHER_NAMES)
    def load(
        cls,
        model: Any = "pocket",
        *,
        tokenizer: Any = None,
        device: str | None = None,
        dtype: str | None = None,
        max_lanes: int = _DEFAULT.max_lanes,
        max_queue: int = _DEFAULT.max_queue,
        cache_bytes: int | None = _DEFAULT.cache_bytes,
        loaded_bytes: int = _DEFAULT.loaded_bytes,
        context_length: int | None = None,
        revision: str | None = None,
        backend: str | None = None,
        max_memory: Mapping[str, int | str] | None = None,
    ) -> Engine:
        """An engine over "pocket", a directory, a GGUF file, a hub id, or a loaded model.

        A loaded model comes with its `tokenizer`; a GGUF file may. `device` and `dtype` default to
        what the machine has; `backend`, "llama.cpp", is for GGUF files; the device "auto" places
        the model on several devices, and `max_memory` says how much of each it may take;
        `context_length` is in tokens; for the others see `Limits`. No pickle is read and no code of
        a checkpoint run; a loaded model has the weights that it has now. Raises ModelError for what
        cannot be loaded; so does a request after these weights were changed.
        """
        placement = Placement(
            device, dtype, revision, context_length, backend, _by_device(max_memory)
        )
        limits = Limits(max_lanes, max_queue, cache_bytes, loaded_bytes)
        with loading:
            base = workers.run_in_thread(lambda: loader.base_model(model, tokenizer, placement))
            return cls(base, limits)

    @classmethod
    @names_checked(instead=OTHER_NAMES)
    def shared(
        cls,
        model: str | PathLike[str] = "pocket",
        *,
        device: str | None = None,
        dtype: str | None = None,
        max_lanes: int = _DEFAULT.max_lanes,
        max_queue: int = _DEFAULT.max_queue,
        cache_bytes: int | None = _DEFAULT.cache_bytes,
        loaded_bytes: int = _DEFAULT.loaded_bytes,
        context_length: int | None = None,
        revision: str | None = None,
        backend: str | None = None,
        max_memory: Mapping[str, int | str] | None = None,
    ) -> Engine:
        """The one engine of the process for these options, loaded by the first call."""
        where = _placement(device, dtype, revision, context_length, backend, _by_device(max_memory))
        limits = _limits(max_lanes, max_queue, cache_bytes, loaded_bytes)
        key = locate(model), where, limits
        engine = _shared.get(key)  # no lock: who needs a loaded engine waits for no other load
        if engine is None or engine.closed:
            with loading:
                engine = _shared.get(key)
                if engine is None or engine.closed:
                    base = workers.run_in_thread(lambda: loader.language_model(model, where))
                    engine = _shared[key] = cls(base, limits)
        return engine

    @property
    def _registry(self) -> Registry:
        """What is loaded. Raises EngineClosed in a forked child, and so does whatever uses it."""
        require_not_forked()
        return self._loaded

    @property
    def model_name(self) -> str:
        """The name of the base model, as `load` was given it."""
        return self._registry.base.checkpoint.name

    @property
    def context_length(self) -> int:
        """How many tokens the base model can read."""
        return self._registry.base.context_length

    @property
    def limits(self) -> Limits:
        """How many requests it takes, and how much memory it may use."""
        return self._thread.queue.limits

    @property
    def closed(self) -> bool:
        """Whether the engine takes no more requests."""
        return forked() or bool(self._thread.queue.closed)

    def status(self) -> EngineStatus:
        """How many requests run and wait at this moment, and what is loaded. Any thread may ask."""
        checkpoints = self._registry.checkpoints()
        return replace(self._thread.scheduler.status(), checkpoints=checkpoints)

    @names_checked()
    def submit(self, request: Request, started: float | None = None) -> Ticket:
        """Start a request. Raises FormulaError, RequestError or ModelError for a bad one.

        Its timeout counts from now, or from when it was `started` by `time.monotonic`. Raises Busy
        where as many requests as the engine takes on wait already.
        """
        if not isinstance(request, Request):
            value = shown(request)
            advice = f"write submit(Request({value})), or generate({value}) for the text"
            raise RequestError(f"submit takes a Request, not {value}; {advice}")
        return self.start(request, Ticket(self, Deadline.of(request.timeout, started)))

    def start(self, request: Request, ticket: Ticket) -> Ticket:
        """Start a request for a ticket, until the ticket's deadline. Errors are those of `submit`.

        `submit` makes the ticket; the room `inspection` brings tickets of its own.
        """
        if request.inspect:
            raise RequestError(
                "this request has inspect: write marith.submit_inspected(engine, request)"
            )
        with faults_named():
            prepared = self.open(request, ticket.deadline)
            generation = Generation(request, prepared, self.answers, ticket)
        ticket.deadline.check()
        self._thread.add(generation)
        return ticket

    def next_logprobs(
        self,
        prompt: AnyPrompt,
        formula: str | Formula = "M",
        terms: Terms | None = None,
        continuation: str | Sequence[int] = (),
        **options: Unpack[ScoringOptions],
    ) -> Tensor:
        """Return the composed log-distribution of the next token, [vocab] in float32.

        `prompt`, `formula` and `terms` are those of a `Request`, and so are the `options`:
        `timeout`, `trusted`, `allowed`, `cache_salt`, `tools` and `template_options`.
        """
        request = scoring_request("next_logprobs", prompt, formula, terms, options)
        return self.run(NextLogprobs(*self.open_at(request, continuation))).wait()

    def score(
        self,
        prompt: AnyPrompt,
        continuation: str | Sequence[int],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        **options: Unpack[ScoringOptions],
    ) -> list[float]:
        """Return the composed log-probability of each token of the continuation.

        `prompt`, `formula` and `terms` are those of a `Request`, and so are the `options`:
        `timeout`, `trusted`, `allowed`, `cache_salt`, `tools` and `template_options`.
        """
        request = scoring_request("score", prompt, formula, terms, options)
        return self._scoring(request, continuation).wait().logprobs

    def submit_scoring(
        self,
        prompt: AnyPrompt,
        continuation: str | Sequence[int],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        *,
        top: int = 0,
        **options: Unpack[ScoringOptions],
    ) -> Future[Scores]:
        """Start to score a continuation, as `score` does; texts scored together share passes.

        The result also says whether each token is the likeliest, and which are the `top` likeliest.
        The future may be cancelled; callbacks run on threads of their own and may use the engine.
        """
        own = "continuation", "top"
        request = scoring_request("submit_scoring", prompt, formula, terms, options, own)
        return self._scoring(request, continuation, whole("top", top, 0))

    @names_checked()
    def calibrate(
        self,
        formula: str | Formula,
        prompts: Sequence[str | Sequence[Message]],
        terms: Terms | None = None,
        costs: Literal["time", "calls"] = "time",
        on_progress: Callable[[float], None] | None = None,
    ) -> Plan:
        """The plan that costs least for texts after prompts like these (the paper's appendix E.3).

        Ten prompts are enough. Drafts are those that the formula names. `costs` are measured times
        or the paper's calls. `on_progress` receives the share that is done, from 0 to 1.
        """
        check_samples(prompts, costs)
        texts, work = [], Work(len(prompts), on_progress)
        for i, prompt in enumerate(prompts):
            out = self.generate(prompt, formula, terms, Sampling(seed=i), SAMPLE, None)
            texts += [(self.open(Request(prompt, formula, terms, speculation=Plan())), out.tokens)]
            work.advance()
        return calibrate(texts, self._thread.add, costs, work)

    def run(self, query: Query[Result], follows: bool = False) -> EngineFuture[Result]:
        """Queue a query, unless nothing was asked, and return the future of its result.

        A query that `follows` a job which has just ended goes before all that wait. The future
        keeps the engine alive.
        """
        query.future.keeper = self
        if not query.done:
            queue = self._thread.follow if follows else self._thread.add
            queue(query)
        return query.future

    def open(
        self, request: Request, deadline: Deadline = NEVER, alternative: Formula | None = None
    ) -> Prepared:
        """Return a request that is bound, loaded and read, also for an `alternative` formula.

        Raises whatever is wrong with the request.
        """
        self._thread.queue.require_open()
        return prepare(request, self._registry, loading, deadline, alternative)

    def open_at(
        self,
        request: Request,
        continuation: str | Sequence[int],
        alternative: Formula | None = None,
    ) -> tuple[Prepared, list[int]]:
        """Return what `open` does, and the tokens of a continuation that the request has room for.

        Raises RequestError for a continuation that is no text or tokens, or too long.
        """
        deadline = Deadline.of(request.timeout)
        with faults_named():
            prepared = self.open(request, deadline, alternative)
            deadline.check()
            tokens = tokens_of(continuation, self._registry.vocabulary, prepared.room.shortest)
        deadline.check()
        return prepared.at_most(len(tokens)), tokens

    def close(self) -> None:
        """Stop serving: open requests get EngineClosed. The weights go with the last reference."""
        self._closing()
        for key in [key for key, engine in [*_shared.items()] if engine is self]:
            _shared.pop(key, None)

    def __repr__(self) -> str:
        if forked():
            return "<Engine, of the parent process>"
        if "_closing" not in vars(self):  # the last attribute that is set
            return "<Engine, not loaded>"
        base, queue = self._registry.base, self._thread.queue
        cache = "without a cache" if base.runner.plain else "cached"
        with queue.lock:
            state = queue.closed or f"{queue.lanes} of {queue.limits.max_lanes} lanes busy"
        return (
            f"<Engine {base.checkpoint.name!r}: {base.checkpoint.summary}, {cache}, "
            f"context of {base.context_length} tokens, {state}>"
        )

    def _scoring(self, request: Request, continuation: Any, top: int = 0) -> EngineFuture[Scores]:
        prepared, tokens = self.open_at(request, continuation)
        return self.run(Scoring(prepared, tokens, top))


def _by_device(
    max_memory: Mapping[str, int | str] | None,
) -> tuple[tuple[str, int | str], ...] | None:
    """The limits of memory as a `Placement` has them. Raises ModelError."""
    limits = memory_limits("max_memory", max_memory, ModelError)
    return None if limits is None else tuple(sorted(limits.items()))
