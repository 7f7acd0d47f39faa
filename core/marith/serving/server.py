"""What all routes of a server share: its models, its threads, its counts."""

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
from marith.serving.until_gone import Runner
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import Fields, parsed, read_body, read_fields

WHAT_IFS = 2  # that run at once: each may take much memory


class Server:
    """The models of a server once they are loaded, and who asks them now."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.runner = Runner()
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
        """Whether it takes requests."""
        return self._models is not None and not self.draining

    def engines(self) -> Sequence[Engine]:
        """All engines, once each; none before they are loaded."""
        return [] if self._models is None else self._models.engines()

    def load(self) -> None:
        """Load all models, and let each of them answer once. Raises MarithError."""
        models = load_models(self.settings)
        for one in models.by_name.values():  # what each formula names is loaded too
            one.engine.next_logprobs("a", one.options.formula, one.options.terms)
        Inspection.json_schema()  # builds what writes inspections: 0.2 s without other threads
        self._models = models

    async def fields(self, kind: type[Fields], web: WebRequest) -> tuple[Fields, ServedModel]:
        """What the body of a request asks, and of which model. Raises Refusal."""
        body = await read_body(web, self.settings.bounds.body)
        fields = await self.runner.off_loop(lambda: read_fields(kind, parsed(body)))
        return fields, self.models.find(fields.model)

    @contextmanager
    def place_for(self, web: WebRequest, count: int = 1) -> Iterator[None]:
        """Places among the requests of one key. Raises Refusal where it has too many."""
        if self.draining:
            raise Refusal("the server ends", 503, "draining")
        key, limit = web.scope.get(KEY), self.settings.bounds.requests_of_key
        if self._of_key[key] + count > limit:
            problem = f"this key has {limit} requests that run, which is the most"
            raise Refusal(problem, 429, "too_many_requests")
        self._of_key[key] += count
        try:
            yield
        finally:
            self._of_key[key] -= count

    def more_places(
        self, web: WebRequest, choices: int | None, prompts: int = 1
    ) -> AbstractContextManager[None]:
        """The places of all answers of one request but its first. Raises Refusal."""
        each = choices or 1
        count, limit = prompts * each, self.settings.bounds.requests_of_key
        if count > limit:
            needed = f"{prompts} prompts with n {each}" if prompts > 1 else f"n {each}"
            problem = f"{needed} need {count} answers, and a key has at most {limit} at once"
            raise Refusal(problem, param="prompt" if prompts > 1 else "n")
        return self.place_for(web, count - 1)

    @property
    def running(self) -> int:
        """How many requests have a place."""
        return sum(self._of_key.values())

    def close(self) -> None:
        """Close all engines: whoever waits gets EngineClosed."""
        for engine in self.engines():
            engine.close()

    async def drain(self, seconds: float) -> None:
        """Take on no more requests, and wait until those that run are answered, at most so long."""
        self.draining = True
        end = asyncio.get_running_loop().time() + seconds
        while self.running and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)


def keep_out_of_collections() -> None:
    """Whatever is loaded stays, so Python's collector of garbage need not look at it again.

    A million objects of torch, transformers and the models would take it 0.2 to 0.8 s each time,
    and no other thread of the process runs meanwhile. What requests make is looked at more rarely
    than Python would: they make many objects that stay until they end.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def note(web: WebRequest, **known: Any) -> None:
    """What the log line of this request says too."""
    line = web.scope.setdefault("state", {}).setdefault("line", {})
    line.update(known)
