"""Metrics for Prometheus, with the meanings of vLLM's and our own names (docs/how-to/serve.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from marith import Chunk, Completion, Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_MODEL = ["model_name"]


class Metrics:
    """Counts what the server does. Labels have few values: names of models, reasons, statuses."""

    def __init__(self, engines: Callable[[], Sequence[Engine]]) -> None:
        self._registry = registry = CollectorRegistry()

        def counter(name: str, says: str, labels: Sequence[str] = ("model_name",)) -> Counter:
            return Counter(f"marith_{name}", says, labels, registry=registry)

        def histogram(name: str, says: str) -> Histogram:
            return Histogram(f"marith_{name}", says, _MODEL, registry=registry, buckets=_SECONDS)

        def gauge(name: str, says: str, value: Callable[[], float]) -> None:
            Gauge(f"marith_{name}", says, registry=registry).set_function(value)

        def total(name: str) -> int:
            return sum(getattr(engine.status(), name) for engine in engines())

        def usage() -> float:
            return total("lanes") / max(1, sum(engine.limits.max_lanes for engine in engines()))

        gauge("num_requests_running", "Running requests.", lambda: total("running"))
        gauge("num_requests_waiting", "Waiting requests.", lambda: total("waiting"))
        gauge("lanes_in_flight", "Lanes in use.", lambda: total("lanes"))
        gauge("lane_usage_perc", "The share of all lanes that is in use.", usage)
        says = "Times that a request was paused because memory was short."
        registry.register(_Total("marith_num_preemptions", says, lambda: total("paused")))
        self.prompt_tokens = counter("prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = counter("prefix_cache_hits", "Tokens of prompts that were cached.")
        self.made_tokens = counter("generation_tokens", "Tokens of answers.")
        self.ended = counter(
            "request_success", "Answers that ended, by reason.", ("model_name", "finished_reason")
        )
        self.failed = counter("request_failure", "Requests that failed, by status.", ("status",))
        self.passes = counter("passes", "Forward passes of models for answers.")
        self.drafted = counter("drafted_tokens", "Tokens that were drafted.")
        self.accepted = counter("accepted_tokens", "Drafted tokens that were accepted.")
        self.rewinds = counter("rewinds", "Times that a ban removed tokens.")
        self.first_token = histogram(
            "time_to_first_token_seconds", "Time from the request to the first token."
        )
        self.between = histogram(
            "inter_token_latency_seconds", "Time between two chunks, divided by the tokens."
        )
        self.whole = histogram(
            "e2e_request_latency_seconds", "Time from the request to the end of the answer."
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus's format."""
        return generate_latest(self._registry)

    def read(self, model: str, prompt_tokens: int, cached_tokens: int = 0) -> None:
        """Count the tokens of a prompt, once for all of its answers."""
        self.prompt_tokens.labels(model).inc(prompt_tokens)
        self.cached_tokens.labels(model).inc(cached_tokens)

    def completed(self, model: str, completion: Completion, began: float) -> None:
        """Count a complete answer. `began` is a time of `time.monotonic`."""
        taken, stats = completion.usage, completion.stats
        for counted, number in (
            (self.made_tokens, taken.completion_tokens),
            (self.passes, stats.passes),
            (self.drafted, stats.drafted),
            (self.accepted, stats.accepted),
            (self.rewinds, stats.rewinds),
        ):
            counted.labels(model).inc(number)
        self.ended.labels(model, completion.finish_reason).inc()
        self.whole.labels(model).observe(time.monotonic() - began)


class _Total(Collector):
    """A counter that the engines keep, so that requests count before they end, and if they fail."""

    def __init__(self, name: str, says: str, value: Callable[[], float]) -> None:
        self._name, self._says, self._value = name, says, value

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counter with its value at this moment."""
        yield CounterMetricFamily(self._name, self._says, value=self._value())


class Pace:
    """Measures the times between the chunks of one answer."""

    def __init__(self, metrics: Metrics, model: str, began: float) -> None:
        self._metrics, self._model, self._last = metrics, model, began
        # The labels are looked up once, because each lookup takes a lock.
        self._between = metrics.between.labels(model)
        self._begun = False
        self.tokens = 0

    def abandoned(self) -> None:
        """Count the tokens of an answer that was abandoned."""
        self._metrics.made_tokens.labels(self._model).inc(self.tokens)

    def chunk(self, chunk: Chunk) -> None:
        """Measure the time of a new chunk."""
        now, count = time.monotonic(), len(chunk.tokens)
        if count:
            if not self._begun:
                self._metrics.first_token.labels(self._model).observe(now - self._last)
            else:
                # A chunk may have several tokens, and the histogram counts tokens.
                for _ in range(count):
                    self._between.observe((now - self._last) / count)
            self._begun, self._last = True, now
            self.tokens += count
