"""The errors that marith raises on purpose. Each message is a sentence with the wrong value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher, get_close_matches
from functools import singledispatch, wraps
from inspect import signature
from itertools import takewhile
from reprlib import Repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import ValidationError

Target = TypeVar("Target", bound=Callable[..., Any])


class MarithError(Exception):
    """The base class of all errors that are raised on purpose."""


class FormulaError(MarithError, ValueError):
    """The formula is invalid. The message quotes the formula, with a caret under the wrong part.

    `problem` is the message without the quotation. `text` is the formula or term that has the
    error, and `text[start:end]` is the wrong part. `text` is "" if the error has no position.
    """

    def __init__(self, problem: str, text: str = "", start: int = 0, end: int = 0) -> None:
        self.problem = problem
        self.text = text
        self.start, self.end = start, end
        super().__init__(problem + _quotation(text, start, end))


class Untrusted(FormulaError):
    """The formula is valid, but untrusted text must not contain it."""


class TooLarge(FormulaError):
    """The formula is larger than a limit."""


class RequestError(MarithError, ValueError):
    """The request is invalid."""


class UnknownOption(RequestError, TypeError):
    """The option does not exist for this request, engine or term."""


class ContextOverflow(RequestError):
    """The prompt leaves no room in a model's context."""


class ModelError(MarithError, OSError):
    """The checkpoint cannot be found, read or used."""


class EngineClosed(MarithError, RuntimeError):
    """The engine was closed before the request, or while the request ran."""


class Busy(MarithError, RuntimeError):
    """Too many requests wait already."""


class DeadlineExceeded(MarithError, TimeoutError):
    """The request was not finished within its timeout."""


def fault(error: BaseException) -> MarithError:
    """Return the error that a caller receives. An error that is not marith's becomes a ModelError.

    Errors that are not marith's are, for example, MemoryError, a panic in a Rust library, or
    SystemExit.
    """
    if isinstance(error, MarithError):
        return error
    failure = ModelError(f"the request failed with {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


@contextmanager
def faults_named() -> Iterator[None]:
    """Raise a MarithError for a MemoryError, and for errors that `except Exception` does not catch.

    A panic of a Rust library is not caught by `except Exception`, for example. Exceptions that end
    a program or a generator are not changed.
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
    """Return the first error of a validation as a MarithError.

    If the first error is not marith's own, the message names the option and its value.
    """
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, MarithError):
        return cause
    # The message of a value_error is already a whole sentence, so it needs no field name.
    if first["type"] == "value_error":
        return RequestError(first["msg"].removeprefix("Value error, "))
    where = ".".join(map(str, first["loc"]))
    return RequestError(f"{where}: {first['msg']}, not {shown(first['input'])}")


@contextmanager
def valid_options() -> Iterator[None]:
    """Raise the MarithError of `from_validation` instead of pydantic's error."""
    from pydantic import ValidationError  # slow to import, and not needed for help

    try:
        yield
    except ValidationError as error:
        raise from_validation(error) from None


def similar(name: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name that is most similar to an unknown name, ignoring case, or None.

    Among names that are about equally similar, the one that shares the longest prefix with the
    unknown name wins; if the prefixes are equally long, the most similar name wins. "temp" becomes
    "temperature", not "terms", and "uniom" becomes "union", not "uniform". `cutoff` is the argument
    of `difflib.get_close_matches`.
    """
    word, by_lower = str(name).lower(), {each.lower(): each for each in names}

    def likeness(other: str) -> float:
        return SequenceMatcher(None, other, word).ratio() - abs(len(other) - len(word)) / 10

    def common(other: str) -> int:
        letters = takewhile(lambda pair: pair[0] == pair[1], zip(other, word, strict=False))
        return sum(1 for _ in letters)

    near = get_close_matches(word, by_lower, 5, cutoff)
    best = max(map(likeness, near), default=0.0)
    nearly = [other for other in near if likeness(other) >= best - _AS_SIMILAR]
    longer = [other for other in by_lower if len(word) >= _BEGINNING and other.startswith(word)]
    ranked = sorted((*nearly, *longer), key=lambda other: (-common(other), -likeness(other)))
    found = next(iter(ranked), None)
    return found and by_lower[found]


def suggestion(name: object, names: Iterable[str], otherwise: str = "", cutoff: float = 0.6) -> str:
    """Return the end of a sentence about an unknown name: a similar name, or `otherwise`."""
    meant = similar(name, names, cutoff)
    return f"; did you mean {meant!r}?" if meant else otherwise


def names_checked(
    advice: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Target], Target]:
    """Return a decorator that makes a function or class refuse unknown argument names.

    `advice` maps a name that another library or another option uses to a sentence about what to
    write instead.
    """

    def decorate(target: Target) -> Target:
        if isinstance(target, type):
            made: Any = target
            made.__init__ = decorate(made.__init__)
            return target
        takes = signature(target)
        names = [name for name in takes.parameters if name not in ("self", "cls")]
        called, accepted = target.__qualname__.removesuffix(".__init__"), set(names)

        @wraps(target)
        def checked(*args: Any, **named: Any) -> Any:
            if not named.keys() <= accepted:
                require_known(_called(called, args), named, names, advice)
            return target(*args, **named)

        vars(checked)["__signature__"] = takes
        return cast(Target, checked)

    return decorate


def _called(name: str, args: Sequence[Any]) -> str:
    """Return a method's name with the class on which it is called, such as `Engine.encode`."""
    owner, _, method = name.rpartition(".")
    kind = type(args[0]) if args and owner else None
    inherits = kind is not None and any(each.__name__ == owner for each in kind.__mro__)
    return f"{kind.__name__}.{method}" if kind is not None and inherits else name


def require_known(
    called: str,
    used: Iterable[str],
    names: Collection[str],
    advice: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise UnknownOption for an argument name that is not in `names`."""
    for name in used:
        if name not in names:
            raise UnknownOption(f"{called} takes no {name!r}{option_hint(name, names, advice)}")


def require_no_positional(called: str, args: Sequence[object]) -> None:
    """Raise UnknownOption for options that are given without their names."""
    if args:
        name = f"model={shown(args[0])}" if isinstance(args[0], str) else "name=value"
        raise UnknownOption(f"{called} takes options by name only: write {name}")


def option_hint(
    name: object,
    names: Collection[str],
    advice: Mapping[str, str] = MappingProxyType({}),
    listed: Iterable[str] = (),
) -> str:
    """Return the end of a sentence about an unknown option.

    `advice` maps a name that another library or another option uses to a sentence about what to
    write instead. If the option resembles none of the names, the sentence lists `listed`, or all of
    `names` if `listed` is empty.
    """
    meant = similar(name, [*names, *advice])
    if meant is not None and meant not in names:
        is_near = get_close_matches(str(name).lower(), [meant.lower()], 1, _NEARLY)
        if is_near:
            return f"; {advice[meant]}"
    return suggestion(name, names, f", but {', '.join(listed or names)}")


def missing_extra(
    error: ModuleNotFoundError, package: str, needed_by: str, extra: str
) -> ModuleNotFoundError:
    """Return an error that says which extra installs `package`, or `error` for another package."""
    if (error.name or "").partition(".")[0] != package:
        return error
    command = f"pip install 'marith[{extra}]'"
    return ModuleNotFoundError(
        f"{needed_by} needs {package}, which is not installed: {command}", name=package
    )


def unreadable(path: object, error: Exception) -> RequestError:
    """Return the error for a file that cannot be read."""
    return RequestError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}")


@singledispatch
def shown(value: object) -> str:
    """Return a short form of a value for errors, even if its `repr` is long, deep or raises.

    A part of a formula is written as formula text.
    """
    return _BRIEF.repr(value)


class _Brief(Repr):
    """Python's `Repr`, except that an integer too long for Python to print is described."""

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
# An unknown name gets the advice for a known name if their similarity is at least this. The
# threshold is high, because `advice` contains many names, and some are similar by chance.
_NEARLY = 0.9
# Names count as about equally similar if their similarity is within this distance of the highest.
_AS_SIMILAR = 0.1
# An unknown name with at least this many letters may be the beginning of a known name.
_BEGINNING = 4


def _quotation(text: str, start: int, end: int) -> str:
    """Return the text around an error, and a line of carets below it. A long text is cut."""
    if not text:
        return ""
    left = max(0, start - _WINDOW // 2)
    piece = "".join(c if c.isprintable() else " " for c in text[left : left + _WINDOW])
    before, after = ("…" if left else ""), ("…" if left + _WINDOW < len(text) else "")
    carets = max(1, min(end - start, left + len(piece) - start))
    return f"\n  {before}{piece}{after}\n  {' ' * (len(before) + start - left)}{'^' * carets}"
