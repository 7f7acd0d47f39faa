"""Errors that are marith's and LangChain's at once: an except clause for either matches them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.exceptions import ContextOverflowError, LangChainException
from pydantic import ValidationError

import marith

try:
    from langchain_core.exceptions import (
        ModelConnectionError,
        ModelInvalidRequestError,
        ModelNotFoundError,
        ModelRateLimitError,
        ModelTimeoutError,
    )
except ImportError:  # before langchain-core 1.6 there was one class for all of them
    ModelConnectionError = LangChainException  # type: ignore[assignment,misc]
    ModelInvalidRequestError = LangChainException  # type: ignore[assignment,misc]
    ModelNotFoundError = LangChainException  # type: ignore[assignment,misc]
    ModelRateLimitError = LangChainException  # type: ignore[assignment,misc]
    ModelTimeoutError = LangChainException  # type: ignore[assignment,misc]


class PromptTooLong(marith.ContextOverflow, ContextOverflowError):
    """A prompt that leaves no room in a model's context."""


class InvalidRequest(marith.RequestError, ModelInvalidRequestError):
    """A request that cannot be served as it was put."""


class InvalidFormula(marith.FormulaError, ModelInvalidRequestError):
    """A formula that means nothing."""


class UntrustedFormula(InvalidFormula, marith.errors.Untrusted, ModelInvalidRequestError):
    """A formula that has a meaning, but that untrusted text must not contain."""


class FormulaTooLarge(InvalidFormula, marith.errors.TooLarge, ModelInvalidRequestError):
    """A formula that exceeds a bound on its size."""


class UnknownRequestOption(InvalidRequest, marith.errors.UnknownOption, ModelInvalidRequestError):
    """An option that a request does not have."""


class NoSuchModel(marith.ModelError, ModelNotFoundError):
    """A checkpoint that cannot be found, read or used."""


class TimedOut(marith.DeadlineExceeded, ModelTimeoutError):
    """An answer that was not finished within its own timeout. May be tried again."""


class TooBusy(marith.Busy, ModelRateLimitError):
    """More requests wait than the engine takes on. May be tried again."""


class EngineGone(marith.EngineClosed, ModelConnectionError):
    """The engine was closed meanwhile. May be tried again, on a new engine."""


_LANGCHAIN_KINDS: dict[type[marith.MarithError], type[marith.MarithError]] = {
    marith.ContextOverflow: PromptTooLong,
    marith.RequestError: InvalidRequest,
    marith.FormulaError: InvalidFormula,
    marith.errors.Untrusted: UntrustedFormula,
    marith.errors.TooLarge: FormulaTooLarge,
    marith.errors.UnknownOption: UnknownRequestOption,
    marith.ModelError: NoSuchModel,
    marith.DeadlineExceeded: TimedOut,
    marith.Busy: TooBusy,
    marith.EngineClosed: EngineGone,
}


@contextmanager
def translated() -> Iterator[None]:
    """Raise marith's errors as LangChain's errors too, with the original as the cause.

    It does the same with pydantic's errors of options: a formula's stays one, others become
    InvalidRequest.
    """
    try:
        yield
    except LangChainException:
        raise
    except marith.MarithError as error:
        replacement = _langchain_error(error)
        if replacement is error:
            raise
        raise replacement from error
    except ValidationError as error:
        raise _langchain_error(marith.errors.from_validation(error)) from error


def _langchain_error(error: marith.MarithError) -> marith.MarithError:
    """The error as LangChain's own too, or itself where LangChain has no such error."""
    kinds = type(error).__mro__
    kind = next((_LANGCHAIN_KINDS[kind] for kind in kinds if kind in _LANGCHAIN_KINDS), None)
    if kind is None:
        return error
    replacement = kind(str(error))
    replacement.__dict__.update(vars(error))
    return replacement
