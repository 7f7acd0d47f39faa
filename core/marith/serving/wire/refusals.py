"""Converts errors to HTTP answers: OpenAI's error object, the status, and the retry headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from starlette.responses import JSONResponse

from marith import (
    Busy,
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    FormulaError,
    MarithError,
    RequestError,
)

RETRY_SECONDS = 1
_FAILED = "the server failed; its log says why"
_INVALID = "invalid_request_error"
_KINDS = {429: "rate_limit_error", 504: "timeout"}


class Refusal(Exception):
    """An error that is an HTTP answer, in the form that OpenAI's clients read.

    `status` is the HTTP status. `marith` has fields for marith's own clients. After a 429 or a 503
    the same request may succeed later.
    """

    def __init__(
        self,
        message: str,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        marith: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.param = message, status, code, param
        self.marith = marith

    @property
    def body(self) -> dict[str, Any]:
        """The error object."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else _INVALID)
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error | ({"marith": self.marith} if self.marith else {})}

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell a client to retry or not."""
        if self.status in (429, 503):
            return {"retry-after": str(RETRY_SECONDS), "x-should-retry": "true"}
        return {"x-should-retry": "false"}

    def response(self) -> JSONResponse:
        """Return the whole answer."""
        return JSONResponse(self.body, self.status, self.headers)


def refusal(error: BaseException) -> Refusal:
    """Return the answer for an error. The text of an error that is not marith's stays secret."""
    text = str(error)
    match error:
        case Refusal():
            return error
        case ValidationError():
            cause = error.errors(include_url=False)[0].get("ctx", {}).get("error")
            return refusal(cause) if isinstance(cause, MarithError) else wrong_value(error)
        case ContextOverflow():
            code = "context_length_exceeded"
            return Refusal(f"{text} ({code})", code=code, param="messages")
        case FormulaError():
            # Clients draw a caret at this place.
            names = ("problem", "text", "start", "end") if error.text else ()
            place = {name: getattr(error, name) for name in names}
            return Refusal(text, code="invalid_formula", param="marith", marith=place)
        case RequestError():
            return Refusal(text)
        case Busy():
            return Refusal(text, 429, "engine_busy")
        case DeadlineExceeded():
            return Refusal(text, 504, "timeout")
        case EngineClosed():
            return Refusal(text, 503, "engine_closed")
        case MarithError():
            # The text may contain paths of the server.
            return Refusal(_FAILED, 500, "model_error")
    return Refusal(_FAILED, 500, "internal_error")


@contextmanager
def naming(param: str, kind: type[MarithError] = RequestError) -> Iterator[None]:
    """Convert errors of a field's value to refusals that name the field."""
    try:
        yield
    except kind as error:
        refused = refusal(error)
        refused.param = param
        raise refused from None


def wrong_value(error: ValidationError) -> Refusal:
    """Return the refusal for the first invalid field."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = [str(part) for part in first["loc"]]
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        # The input of this error is the whole object, which is not quoted.
        problem = f"'{'.'.join(where[:4])}' is missing"
    elif first["type"] == "extra_forbidden":
        *path, name = where
        problem = f"{name!r:.80} is not a field of {'.'.join(path) or 'the body'}"
    elif first["type"] != "value_error":
        # pydantic's sentence has neither the field nor the value.
        problem = f"{'.'.join(where[:4]) or 'the body'}: {problem[:1].lower()}{problem[1:]}"
        if first["type"] not in ("too_long", "string_too_long"):
            problem += f", not {repr(first.get('input'))[:80]}"
    return Refusal(problem, code="invalid_value", param=where[0] if where else None)
