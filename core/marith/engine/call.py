"""The arguments of one call of an engine, and the requests that they describe."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, TypedDict, TypeVar

from marith.errors import RequestError, require_known, shown
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.request.checks import fields_by_option, whole
from marith.request.completion import Completion
from marith.request.forms.tools import Tools
from marith.request.other_names import AT_CALLS
from marith.request.prompt import AnyPrompt, prompts_of
from marith.request.request import IS_SAMPLING, Request, RequestOptions, Speculation
from marith.request.sampling import Sampling, sample_seed
from marith.request.stop import Stop, read_stop

Stops: TypeAlias = "Stop | str | Sequence[str] | None"
Fields = TypeVar("Fields", Sampling, Stop)


class CallOptions(RequestOptions, total=False):
    """The named options of a call: the options of a request and of `Sampling`, and `max_tokens`."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    seed: int | None
    max_tokens: int | None
    min_tokens: int
    max_reasoning_tokens: int | None
    stop_token_ids: Sequence[int]
    ignore_eos: bool


class ScoringOptions(TypedDict, total=False):
    """The options of a call that generates no token. They are fields of `Request`."""

    timeout: float | None
    trusted: bool
    allowed: Collection[str]
    cache_salt: str | None
    tools: Tools | None
    template_options: Mapping[str, Any] | None


_SAMPLING = tuple(field.name for field in fields(Sampling))
# The options that set a field of `Stop`, with the name of the field. `stop` is not an option, but
# an argument of its own.
_STOP = {name: field.name for name, field in fields_by_option(Stop).items() if name != "stop"}
_NAMES = (
    *RequestOptions.__annotations__, *_SAMPLING, *_STOP,
    "formula", "terms", "sampling", "speculation",
)  # fmt: skip


def request_of(
    prompt: AnyPrompt,
    formula: str | Formula,
    terms: Terms | None,
    sampling: Sampling | None,
    stop: Stops,
    speculation: Speculation,
    options: CallOptions,
) -> Request:
    """Return the request that the arguments of a call describe.

    For an option of `Sampling`, None means "not set". With `max_tokens=None` only the context
    limits the text. Raises UnknownOption for an unknown name, and RequestError for an option that
    is set twice with different values: by name, and in `sampling` or `stop`.
    """
    require_known("a call", options, _NAMES, AT_CALLS)
    rest: dict[str, Any] = dict(options)
    drawn = {name: rest.pop(name) for name in _SAMPLING if name in rest}
    drawn = {name: value for name, value in drawn.items() if value is not None}
    limits = {field: rest.pop(name) for name, field in _STOP.items() if name in rest}
    return Request(
        prompt,
        formula,
        terms,
        _joined(
            "sampling", IS_SAMPLING("sampling", Sampling() if sampling is None else sampling), drawn
        ),
        _joined("stop", _stop(stop), limits),
        speculation,
        **rest,
    )


def scoring_request(
    call: str,
    prompt: AnyPrompt,
    formula: str | Formula,
    terms: Terms | None,
    options: ScoringOptions,
    own: Sequence[str] = ("continuation",),
) -> Request:
    """Return the request of a call that generates no token, such as `score`.

    `call` is the name of the call, for errors. `own` are the names of its arguments besides
    `prompt`, `formula` and `terms`. Raises UnknownOption for an unknown name.
    """
    names = ["prompt", "formula", "terms", *own, *ScoringOptions.__annotations__]
    require_known(call, options, names)
    return Request(prompt, formula, terms, speculation=None, **options)


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one call: `n` samples for each of its prompts, in order."""

    all: list[Request]
    n: int
    is_list: bool

    @classmethod
    def of(
        cls,
        prompt: Any,
        formula: str | Formula,
        terms: Terms | None,
        sampling: Sampling | None,
        stop: Stops,
        speculation: Speculation,
        n: int,
        options: CallOptions,
    ) -> Requests:
        """Return the requests that the arguments of a call describe, as `request_of` does."""
        count, many = whole("n", n, 1), prompts_of(prompt)
        requests = []
        for each in [prompt] if many is None else many:
            request = request_of(each, formula, terms, sampling, stop, speculation, options)
            requests += _samples(request, count)
        return cls(requests, count, many is not None)

    def arranged(
        self, results: list[Completion]
    ) -> Completion | list[Completion] | list[list[Completion]]:
        """Return the results as the call returns them: one result, a list, or a list of lists."""
        if self.n > 1 and self.is_list:
            return [results[i : i + self.n] for i in range(0, len(results), self.n)]
        return results if self.n > 1 or self.is_list else results[0]


def _samples(request: Request, count: int) -> list[Request]:
    """Return `count` requests. If the first has the seed s, the second has s + 1, and so on."""
    seed = request.sampling.seed
    if count == 1 or seed is None:
        return [request] * count
    seeds = (sample_seed(seed, i) for i in range(count))
    return [replace(request, sampling=replace(request.sampling, seed=s)) for s in seeds]


def _stop(stop: Stops) -> Stop:
    return stop if isinstance(stop, Stop) else Stop(strings=tuple(read_stop(stop)))


def _joined(name: str, base: Fields, options: Mapping[str, Any]) -> Fields:
    """Return `base` with the options that were given by name."""
    changed: dict[str, Any] = {}
    for field in fields(base):
        if field.name not in options:
            continue
        value, before = options[field.name], getattr(base, field.name)
        # A field that has its default counts as not given: the dataclass cannot tell the
        # difference.
        if before not in (field.default, value):
            kind = type(base).__name__
            raise RequestError(
                f"{field.name} is given twice: {field.name}={shown(value)}, and "
                f"{name}={kind}({field.name}={shown(before)})"
            )
        changed[field.name] = value
    return replace(base, **changed) if changed else base
