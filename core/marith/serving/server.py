"""The models, threads and counts that all routes of a server share."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from starlette.requests import Request as WebRequest

from marith import Engine, Inspection
from marith.serving.guard import KEY
from marith.serving.served_models import ServedModel, ServedModels, load_models
from marith.serving.server_metrics import Metrics
from marith.serving.server_settings import ServerSettings
from marith.serving.until_gone import WorkerPool
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import Fields, parsed, read_body, read_fields

# At most this many what-ifs run at once, because each may need much memory.
WHAT_IFS = 2


class Server:
    """The models of a server once they are loaded, and the requests that run now."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.workers = WorkerPool()
        self.draining = False
        self._models: ServedModels | None = None
        self._of_key: Counter[Any] = Counter()
        self.metrics = Metrics(self.engines)
        self.what_ifs = asyncio.Semaphore(WHAT_IFS)

    @property
    def models(self) -> ServedModels:
        """All models. Raises Refusal before they are loaded."""
        if self._models is None:
            raise Refusal("the models are being loaded", 503, "loading")
        return self._models

    @property
    def ready(self) -> bool:
        """True if the server accepts requests."""
        return self._models is not None and not self.draining

    def engines(self) -> Sequence[Engine]:
        """Return all engines, each once; an empty list before they are loaded."""
        return [] if self._models is None else self._models.engines()

    def load(self) -> None:
        """Load all models, and evaluate each formula once. Raises MarithError."""
        models = load_models(self.settings)
        # The first evaluation of a formula loads the models of its terms.
        for one in models.by_name.values():
            one.engine.next_logprobs("a", one.options.formula, one.options.terms)
        # Building the serializer takes 0.2 s and blocks all threads, so it is built now.
        Inspection.json_schema()
        self._models = models

    async def fields(self, kind: type[Fields], web: WebRequest) -> tuple[Fields, ServedModel]:
        """Read the body of a request, and find its model. Raises Refusal."""
        body = await read_body(web, self.settings.limits.body)
        fields = await self.workers.off_loop(lambda: read_fields(kind, parsed(body)))
        return fields, self.models.find(fields.model)

    @contextmanager
    def place_for(self, web: WebRequest, count: int = 1) -> Iterator[None]:
        """Count `count` requests of a client's key as running.

        Raises Refusal if the key runs too many, or if the server is shutting down.
        """
        if self.draining:
            raise Refusal("the server is shutting down", 503, "draining")
        key, limit = web.scope.get(KEY), self.settings.limits.requests_of_key
        if self._of_key[key] + count > limit:
            problem = f"this key already runs the maximum of {limit} requests"
            raise Refusal(problem, 429, "too_many_requests")
        self._of_key[key] += count
        try:
            yield
        finally:
            self._of_key[key] -= count

    def more_places(
        self, web: WebRequest, choices: int | None, prompts: int = 1
    ) -> AbstractContextManager[None]:
        """Count the further answers of a request as running. `place_for` has counted the first.

        Raises Refusal if the key runs too many.
        """
        each = choices or 1
        count, limit = prompts * each, self.settings.limits.requests_of_key
        if count > limit:
            needed = f"{prompts} prompts with n {each}" if prompts > 1 else f"n {each}"
            problem = f"{needed} need {count} answers, and a key has at most {limit} at once"
            raise Refusal(problem, param="prompt" if prompts > 1 else "n")
        return self.place_for(web, count - 1)

    @property
    def running(self) -> int:
        """The number of running requests."""
        return sum(self._of_key.values())

    def close(self) -> None:
        """Close all engines. Waiting callers get EngineClosed."""
        for engine in self.engines():
            engine.close()

    async def drain(self, seconds: float) -> None:
        """Accept no more requests, and wait at most `seconds` for the running ones."""
        self.draining = True
        end = asyncio.get_running_loop().time() + seconds
        while self.running and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)


def keep_out_of_collections() -> None:
    """Exclude everything that is loaded from Python's garbage collection.

    The collector would take 0.2 to 0.8 s each time for a million objects of torch, transformers and
    the models, and would stop all other threads. It also runs less often from now on, because
    requests make many objects that live until the request ends.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def note(web: WebRequest, **known: Any) -> None:
    """Add fields to the log line of this request."""
    line = web.scope.setdefault("state", {}).setdefault("line", {})
    line.update(known)
