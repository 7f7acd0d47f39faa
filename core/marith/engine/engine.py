"""The engine over a base model, which takes requests for formulas."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
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
from marith.engine.loop import EngineLoop
from marith.engine.prepare import Prepared, prepare
from marith.engine.threads import workers
from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.threads.futures import EngineFuture
from marith.engine.threads.workers import LoadingLock, forked, log, require_not_forked
from marith.engine.ticket import Ticket
from marith.engine.tokens import TokenCalls
from marith.errors import ModelError, RequestError, faults_named, names_checked, shown
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.request.checks import whole
from marith.request.limits import EngineStatus, Limits
from marith.request.other_names import AT_ENGINES
from marith.request.placement_names import Over, memory_limits, over_name
from marith.request.plan import Plan
from marith.request.prompt import AnyPrompt, Message
from marith.request.request import Request
from marith.request.sampling import Sampling
from marith.scoring.free_memory import bytes_text, free_memory
from marith.scoring.registry import Registry, device_of, require_lanes
from marith.scoring.weights import loader
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.locate import locate
from marith.scoring.weights.placing import Placement

loading = LoadingLock()
_log = logging.getLogger(__name__)
_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_shared: dict[tuple[str, Placement, Limits, Over], Engine] = {}
_DEFAULT = Limits()
FREE = (
    "%d engines are loaded on %s. %s of its memory are free, and this engine's caches may take %s"
)
TOO_MUCH = f"{FREE}. Set a smaller cache_bytes for each of the engines"
# An adapter looks up its engine at every call, nearly always with the same options, so the
# placement and the limits are cached.
_placement = lru_cache(maxsize=16, typed=True)(Placement)
_limits = lru_cache(maxsize=16, typed=True)(Limits)


class Engine(Entrypoints, TokenCalls):
    """Generates and scores texts under formulas, with one base model.

    Any number of threads and tasks may call an engine at the same time. One thread owns the models.
    A request that is cancelled, or whose ticket nobody holds, frees its lanes. In a forked child of
    the process every call raises EngineClosed; start processes by `spawn` instead.
    """

    def __init__(self, base: Checkpoint, limits: Limits = _DEFAULT, over: Over = "tokens") -> None:
        over = over_name("over", over, ModelError)
        with loading:
            free = free_memory(device_of(base))
            limits = limits.with_memory(free)
            require_lanes(base, limits.max_lanes)
            of_models = limits.cache_bytes or 0, limits.loaded_bytes, limits.max_batched_tokens
            registry = self._loaded = workers.run_in_thread(
                lambda: Registry(base, *of_models, over)
            )
        self.answers = AnswerGrammars(registry.vocabulary)
        self._loop = EngineLoop(limits, registry.bytes_left, base.threads, device_of(base))
        # When nobody holds the engine any more, its thread must end.
        self._closing = weakref.finalize(self, self._loop.close)
        with loading:
            others = [one for one in _engines if not one.closed]
            _engines.add(self)
        _log_free(self, free, others)

    @classmethod
    @names_checked(AT_ENGINES)
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
        max_batched_tokens: int | None = _DEFAULT.max_batched_tokens,
        context_length: int | None = None,
        revision: str | None = None,
        backend: str | None = None,
        max_memory: Mapping[str, int | str] | None = None,
        over: Over = "tokens",
    ) -> Engine:
        """Load a model, and return an engine over it.

        `model` is "pocket", a directory, a GGUF file, the id of a model on the hub, or a loaded
        model of transformers. A loaded model needs its `tokenizer`. For a GGUF file, `tokenizer` is
        optional. By default, the best `device` of the machine is used, with the `dtype` that suits
        it. `device="auto"` spreads the model over several devices, and `max_memory` limits the
        memory of each. `backend="llama.cpp"` is for GGUF files. `context_length` is in tokens.
        With `over="bytes"`, the tokens of the engine are bytes, and formulas combine language
        models of any vocabularies. `Limits` describes the other options.

        Pickled weights are refused, and code in a checkpoint is never run. Raises ModelError if the
        model cannot be loaded. Do not change the weights of a loaded model: after a change,
        requests raise ModelError.
        """
        over = over_name("over", over, ModelError)
        placement = Placement(
            device, dtype, revision, context_length, backend, _by_device(max_memory)
        )
        limits = Limits(max_lanes, max_queue, cache_bytes, loaded_bytes, max_batched_tokens)
        with loading:
            base = workers.run_in_thread(lambda: loader.base_model(model, tokenizer, placement))
            return cls(base, limits, over)

    @classmethod
    @names_checked(AT_ENGINES)
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
        max_batched_tokens: int | None = _DEFAULT.max_batched_tokens,
        context_length: int | None = None,
        revision: str | None = None,
        backend: str | None = None,
        max_memory: Mapping[str, int | str] | None = None,
        over: Over = "tokens",
    ) -> Engine:
        """Return the engine that this process shares for these options. The first call loads it."""
        over = over_name("over", over, ModelError)
        where = _placement(device, dtype, revision, context_length, backend, _by_device(max_memory))
        limits = _limits(max_lanes, max_queue, cache_bytes, loaded_bytes, max_batched_tokens)
        key = locate(model), where, limits, over
        # The lock is not taken here: a caller that asks for a loaded engine must not wait while
        # another engine is loaded.
        engine = _shared.get(key)
        if engine is None or engine.closed:
            with loading:
                # Another thread may have loaded the engine while this thread waited.
                engine = _shared.get(key)
                if engine is None or engine.closed:
                    base = workers.run_in_thread(lambda: loader.language_model(model, where))
                    engine = _shared[key] = cls(base, limits, over)
        return engine

    @property
    def _registry(self) -> Registry:
        """The loaded models. Raises EngineClosed in a forked child."""
        require_not_forked()
        return self._loaded

    @property
    def model_name(self) -> str:
        """The name of the base model, as passed to `load`."""
        return self._registry.base.checkpoint.name

    @property
    def context_length(self) -> int:
        """The number of tokens that the base model can read."""
        return self._registry.base.context_length

    @property
    def limits(self) -> Limits:
        """The limits of the engine: numbers of requests, and memory."""
        return self._loop.limits

    @property
    def closed(self) -> bool:
        """True if the engine accepts no more requests."""
        return forked() or bool(self._loop.closed)

    def status(self) -> EngineStatus:
        """Return how many requests run and wait, and what is loaded. Safe in any thread."""
        return self._loop.status(self._registry.checkpoints())

    @names_checked()
    def submit(self, request: Request, started: float | None = None) -> Ticket:
        """Start a request, and return its ticket.

        The timeout of the request counts from now, or from `started`, a time of `time.monotonic`.
        Raises FormulaError, RequestError or ModelError for an invalid request, and Busy if more
        than `max_queue` requests would wait.
        """
        if not isinstance(request, Request):
            value = shown(request)
            advice = f"write submit(Request({value})), or generate({value}) for the text"
            raise RequestError(f"submit takes a Request, not {value}; {advice}")
        return self.start(request, Ticket(self, Deadline.of(request.timeout, started)))

    def start(self, request: Request, ticket: Ticket) -> Ticket:
        """Start a request, and pass its chunks and its completion to `ticket`.

        The deadline is the ticket's. `submit` passes a `Ticket`, and `inspection` a subclass of it.
        Raises the errors that `submit` raises.
        """
        if request.inspect:
            raise RequestError(
                "this request has inspect: write marith.submit_with_inspection(engine, request)"
            )
        with faults_named():
            prepared = self.open(request, ticket.deadline)
            generation = Generation(request, prepared, self.answers, ticket)
        ticket.deadline.check()
        self._loop.add(generation)
        return ticket

    def next_logprobs(
        self,
        prompt: AnyPrompt,
        formula: str | Formula = "M",
        terms: Terms | None = None,
        continuation: str | Sequence[int] = (),
        **options: Unpack[ScoringOptions],
    ) -> Tensor:
        """Return the log-probabilities of the next token under the formula, [vocab] in float32.

        The arguments are fields of `Request`. `options` are `timeout`, `trusted`, `allowed`,
        `cache_salt`, `tools` and `template_options`.
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
        """Return the log-probability of each token of the continuation under the formula.

        The arguments are fields of `Request`. `options` are `timeout`, `trusted`, `allowed`,
        `cache_salt`, `tools` and `template_options`.
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
        """Start to score a continuation, and return a future.

        Texts that are scored together share passes. The result also says whether each token is the
        likeliest, and lists the `top` likeliest tokens. The future may be cancelled. Its callbacks
        run on separate threads and may use the engine.
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
        """Return the plan that generates texts at the lowest cost, measured on `prompts`.

        The method is the paper's appendix E.3. Ten prompts are enough. The plan uses the drafts
        that the formula names. With `costs="time"`, the costs are measured times. With
        `costs="calls"`, they are numbers of calls of models, as in the paper. `on_progress`
        receives the share that is done, from 0 to 1.
        """
        check_samples(prompts, costs)
        texts, work = [], Work(len(prompts), on_progress)
        for i, prompt in enumerate(prompts):
            out = self.generate(prompt, formula, terms, Sampling(seed=i), SAMPLE, None)
            texts += [(self.open(Request(prompt, formula, terms, speculation=Plan())), out.tokens)]
            work.advance()
        return calibrate(texts, self._loop.add, costs, work)

    def run(self, query: Query[Result], follows: bool = False) -> EngineFuture[Result]:
        """Queue a query, and return its future. A query of an empty text is done at once.

        With `follows`, the query continues a job that has just ended, so it goes before all waiting
        jobs. The future keeps the engine alive.
        """
        query.future.keeper = self
        if not query.done:
            queue = self._loop.follow if follows else self._loop.add
            queue(query)
        return query.future

    def open(
        self, request: Request, deadline: Deadline = NEVER, also: Formula | None = None
    ) -> Prepared:
        """Bind the formula of a request, load its models, read its prompt, and return it prepared.

        The terms of the formula `also` are prepared too. Raises the errors that `prepare` raises,
        and EngineClosed.
        """
        self._loop.require_open()
        return prepare(request, self._registry, loading, deadline, also)

    def open_at(
        self,
        request: Request,
        continuation: str | Sequence[int],
        also: Formula | None = None,
    ) -> tuple[Prepared, list[int]]:
        """Return the prepared request, and the tokens of a continuation.

        Raises RequestError for a continuation that is not a text or tokens, or that is too long.
        """
        deadline = Deadline.of(request.timeout)
        with faults_named():
            prepared = self.open(request, deadline, also)
            deadline.check()
            tokens = tokens_of(continuation, self._registry.vocabulary, prepared.budget.shortest)
        deadline.check()
        return prepared.at_most(len(tokens)), tokens

    def close(self) -> None:
        """Stop: open requests fail with EngineClosed.

        The weights are freed when nobody holds the engine any more.
        """
        self._closing()
        # Another thread may add an engine meanwhile, so the loop runs over a copy.
        for key in [key for key, engine in [*_shared.items()] if engine is self]:
            _shared.pop(key, None)

    def __repr__(self) -> str:
        if forked():
            return "<Engine, of the parent process>"
        # `__init__` sets `_closing` last, so an engine without it is not loaded.
        if "_closing" not in vars(self):
            return "<Engine, not loaded>"
        base, busy = self._registry.base, self._loop.status().lanes
        cache = "without a cache" if base.runner.plain else "cached"
        over = ", over bytes" if self._registry.over_bytes else ""
        state = self._loop.closed or f"{busy} of {self.limits.max_lanes} lanes busy"
        return (
            f"<Engine {base.checkpoint.name!r}: {base.checkpoint.summary}, {cache}, "
            f"context of {base.context_length} tokens{over}, {state}>"
        )

    def _scoring(self, request: Request, continuation: Any, top: int = 0) -> EngineFuture[Scores]:
        prepared, tokens = self.open_at(request, continuation)
        return self.run(Scoring(prepared, tokens, top))


def _log_free(engine: Engine, free: int, others: Sequence[Engine]) -> None:
    """Log how many bytes are free on a device with other engines, with a warning if too few."""
    device = device_of(engine._loaded.base.checkpoint)
    count = 1 + sum(device_of(one._loaded.base.checkpoint) == device for one in others)
    if count == 1:
        return
    own = engine.limits.cache_bytes or 0
    level, message = (logging.WARNING, TOO_MUCH) if own > free else (logging.INFO, FREE)
    log(_log, level, message, count, device, bytes_text(free), bytes_text(own))


def _by_device(
    max_memory: Mapping[str, int | str] | None,
) -> tuple[tuple[str, int | str], ...] | None:
    """Return `max_memory` as `Placement` takes it. Raises ModelError for an invalid mapping."""
    limits = memory_limits("max_memory", max_memory, ModelError)
    return None if limits is None else tuple(sorted(limits.items()))
