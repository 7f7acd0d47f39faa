"""Errors that are instances of both marith's and LangChain's classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.exceptions import (
    ContextOverflowError,
    LangChainException,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from pydantic import ValidationError

import marith


class PromptTooLong(marith.ContextOverflow, ContextOverflowError):
    """The prompt leaves no room in a model's context."""


class InvalidRequest(marith.RequestError, ModelInvalidRequestError):
    """The request is invalid."""


class InvalidFormula(marith.FormulaError, ModelInvalidRequestError):
    """The formula is invalid."""


class UntrustedFormula(InvalidFormula, marith.errors.Untrusted, ModelInvalidRequestError):
    """The formula is valid, but untrusted text must not contain it."""


class FormulaTooLarge(InvalidFormula, marith.errors.TooLarge, ModelInvalidRequestError):
    """The formula is too large."""


class UnknownRequestOption(InvalidRequest, marith.errors.UnknownOption, ModelInvalidRequestError):
    """The option does not exist."""


class NoSuchModel(marith.ModelError, ModelNotFoundError):
    """The checkpoint cannot be found, read or used."""


class TimedOut(marith.DeadlineExceeded, ModelTimeoutError):
    """The answer was not finished within its timeout. The call may be repeated."""


class TooBusy(marith.Busy, ModelRateLimitError):
    """Too many requests wait already. The call may be repeated."""


class EngineGone(marith.EngineClosed, ModelConnectionError):
    """The engine was closed meanwhile. The call may be repeated, on a new engine."""


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
    """Raise marith's errors as LangChain's errors too, with the same cause and traceback.

    A pydantic error of an option becomes InvalidFormula if it is about the formula, and
    InvalidRequest otherwise.
    """
    try:
        yield
    except LangChainException:
        raise
    except marith.MarithError as error:
        replacement = _langchain_error(error)
        if replacement is error:
            raise
        # Python prints the cause of an error before the error. The original error is not the cause
        # here, because it would only repeat the message.
        raise replacement.with_traceback(error.__traceback__) from error.__cause__
    except ValidationError as error:
        raise _langchain_error(marith.errors.from_validation(error)) from None


def _langchain_error(error: marith.MarithError) -> marith.MarithError:
    """Return the error as LangChain's error too, or itself if LangChain has none like it."""
    kinds = type(error).__mro__
    kind = next((_LANGCHAIN_KINDS[kind] for kind in kinds if kind in _LANGCHAIN_KINDS), None)
    if kind is None:
        return error
    replacement = kind(str(error))
    replacement.__dict__.update(vars(error))
    return replacement
