"""What a run of `marith bench` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from marith.errors import ModelError, RequestError
from marith.evals.reporting.evaluation_report import check_sections
from marith.evals.speed.shape import LlamaShape
from marith.request.checks import by, dtype_name, hold, quantize_name, whole_from
from marith.scoring.checkpoints.locate import locate

SECTIONS = ("terms", "step", "concurrency", "first-token", "mixed", "floor")
# Those after SECTIONS only where they are named.
EVERY = (*SECTIONS, "drafts", "memory", "start", "peers", "step-peers")
REQUESTS = (1, 4, 16)
MOST_REQUESTS = 1024


@dataclass(frozen=True, slots=True)
class BenchmarkSettings:
    """A run of the bench.

    Without `model` it is on a random Llama of `shape`; with both, on the model inflated to the
    shape. Everybody computes in `dtype`; the engine alone in the few bits of `quantize`. Each
    variant makes `tokens` tokens a round; `requests` are how many run together where many do.
    Raises ModelError or RequestError.
    """

    model: str | None = None
    shape: LlamaShape | None = None
    tokens: int = field(default=32, metadata=by(whole_from(2)))  # the first is timed by itself
    rounds: int = field(default=5, metadata=by(whole_from(1)))
    sections: Sequence[str] = SECTIONS
    requests: Sequence[int] = REQUESTS
    dtype: str = field(default="float32", metadata=by(dtype_name))
    quantize: str | None = field(default=None, metadata=by(quantize_name))

    def __post_init__(self) -> None:
        hold(self)
        check_sections(self.sections, EVERY)
        count = whole_from(1, MOST_REQUESTS)
        distinct = dict.fromkeys(count("requests", one) for one in self.requests)
        object.__setattr__(self, "requests", tuple(sorted(distinct)))
        if not self.requests:
            raise RequestError("requests has at least one number, how many run together")
        if self.dtype is None:
            raise ModelError("the bench computes in a type that is given, not in None")
        if self.model is not None:
            locate(self.model)
