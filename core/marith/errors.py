"""The errors that marith raises on purpose; each message is a sentence with the wrong value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch
from reprlib import Repr
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class MarithError(Exception):
    """The root of all errors raised on purpose."""


class FormulaError(MarithError, ValueError):
    """A formula without a meaning; the message quotes it, with a caret under the wrong part."""

    def __init__(self, problem: str, text: str = "", start: int = 0, end: int = 0) -> None:
        self.problem = problem
        self.text = text
        self.start = start
        super().__init__(problem + _quotation(text, start, end))


class Untrusted(FormulaError):
    """A formula that has a meaning, but that untrusted text must not contain."""


class TooLarge(FormulaError):
    """A formula that exceeds a bound on its size."""


class RequestError(MarithError, ValueError):
    """A request that cannot be served."""


class UnknownOption(RequestError, TypeError):
    """An option that a request does not have."""


class ContextOverflow(RequestError):
    """A prompt that leaves no room in a model's context."""


class ModelError(MarithError, OSError):
    """A checkpoint that cannot be found, read or used."""


class EngineClosed(MarithError, RuntimeError):
    """The engine was closed before, or while, the request ran."""


class Busy(MarithError, RuntimeError):
    """More requests wait than the engine accepts."""


class DeadlineExceeded(MarithError, TimeoutError):
    """A request that was not finished within its timeout."""


def fault(error: BaseException) -> MarithError:
    """The error that a caller receives: marith's own as it is, any other inside a ModelError.

    Others are, for example, a lack of memory, a panic of a library in Rust, or an exit.
    """
    if isinstance(error, MarithError):
        return error
    failure = ModelError(f"the request failed with {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


@contextmanager
def faults_named() -> Iterator[None]:
    """Turn errors that no `except Exception` catches, such as a panic in Rust, into MarithErrors.

    A lack of memory too. Exceptions that end a program or a generator pass unchanged.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except MemoryError as error:
        raise fault(error) from error
    except Exception:
        raise
    except BaseException as error:
        raise fault(error) from error


def from_validation(error: ValidationError) -> MarithError:
    """The first error of a validation: marith's own, or one with the option and its value."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, MarithError):
        return cause
    if first["type"] == "value_error":  # a whole sentence
        return RequestError(first["msg"].removeprefix("Value error, "))
    where = ".".join(map(str, first["loc"]))
    return RequestError(f"{where}: {first['msg']}, not {shown(first['input'])}")


def unreadable(path: object, error: Exception) -> RequestError:
    """The error for a file that cannot be read."""
    return RequestError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}")


@singledispatch
def shown(value: object) -> str:
    """A value as errors quote it: short, however long or deep it is, even if its `repr` raises.

    A part of a formula is quoted as formula text.
    """
    return _BRIEF.repr(value)


class _Brief(Repr):
    """Python's `Repr`, except for an integer so long that Python refuses to print it."""

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > LONG:
            return f"a number of {x.bit_length()} bits"
        return super().repr_int(x, level)


LONG = 4096  # bits
_BRIEF = _Brief()
_BRIEF.maxlong = LONG
_BRIEF.maxstring = _BRIEF.maxother = 200
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxdict = 8
_BRIEF.maxlevel = 4
_WINDOW = 72


def _quotation(text: str, start: int, end: int) -> str:
    """The text around the fault, and a line of carets below it; a long text is cut."""
    if not text:
        return ""
    left = max(0, start - _WINDOW // 2)
    piece = "".join(c if c.isprintable() else " " for c in text[left : left + _WINDOW])
    before, after = ("…" if left else ""), ("…" if left + _WINDOW < len(text) else "")
    carets = max(1, min(end - start, left + len(piece) - start))
    return f"\n  {before}{piece}{after}\n  {' ' * (len(before) + start - left)}{'^' * carets}"
