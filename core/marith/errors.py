"""The errors that marith raises on purpose; each message is a sentence with the wrong value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher, get_close_matches
from functools import singledispatch, wraps
from inspect import signature
from reprlib import Repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import ValidationError

Target = TypeVar("Target", bound=Callable[..., Any])


class MarithError(Exception):
    """The root of all errors raised on purpose."""


class FormulaError(MarithError, ValueError):
    """A formula without a meaning; the message quotes it, with a caret under the wrong part.

    `problem` is the message without the quotation. `text` is what has the fault, the formula or a
    term, from the letter `start` to before `end`; "" where it is nowhere in a text.
    """

    def __init__(self, problem: str, text: str = "", start: int = 0, end: int = 0) -> None:
        self.problem = problem
        self.text = text
        self.start, self.end = start, end
        super().__init__(problem + _quotation(text, start, end))


class Untrusted(FormulaError):
    """A formula that has a meaning, but that untrusted text must not contain."""


class TooLarge(FormulaError):
    """A formula that exceeds a bound on its size."""


class RequestError(MarithError, ValueError):
    """A request that cannot be served."""


class UnknownOption(RequestError, TypeError):
    """An option that a request, an engine or a term does not have."""


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


@contextmanager
def valid_options() -> Iterator[None]:
    """Raise the MarithError of `from_validation` in place of pydantic's error."""
    from pydantic import ValidationError  # slow to import, and not needed for help

    try:
        yield
    except ValidationError as error:
        raise from_validation(error) from None


def similar(name: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that an unknown one resembles, in either case; None where none does.

    Of names that are nearly as similar it is one of like length: "uniom" is "union", and not
    "uniform". `cutoff` is that of `difflib.get_close_matches`.
    """
    word, by_lower = str(name).lower(), {each.lower(): each for each in names}

    def likeness(other: str) -> float:
        return SequenceMatcher(None, other, word).ratio() - abs(len(other) - len(word)) / 10

    best = max(get_close_matches(word, by_lower, 5, cutoff), key=likeness, default=None)
    return best and by_lower[best]


def suggestion(name: object, names: Iterable[str], otherwise: str = "", cutoff: float = 0.6) -> str:
    """The end of a sentence about an unknown name: the name that it resembles, or `otherwise`."""
    meant = similar(name, names, cutoff)
    return f"; did you mean {meant!r}?" if meant else otherwise


def names_checked(
    instead: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Target], Target]:
    """A decorator: a function, or a class, refuses arguments of unknown names in one sentence.

    `instead` has advice about names that others have.
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
                require_known(_called(called, args), named, names, instead)
            return target(*args, **named)

        vars(checked)["__signature__"] = takes
        return cast(Target, checked)

    return decorate


def _called(name: str, args: Sequence[Any]) -> str:
    """Return a method's name with the class on which it is called: `Engine.encode`."""
    owner, _, method = name.rpartition(".")
    kind = type(args[0]) if args and owner else None
    inherits = kind is not None and any(each.__name__ == owner for each in kind.__mro__)
    return f"{kind.__name__}.{method}" if kind is not None and inherits else name


def require_known(
    called: str,
    used: Iterable[str],
    names: Collection[str],
    instead: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise UnknownOption for a name of an argument that is not among `names`."""
    for name in used:
        if name in names:
            continue
        meant = similar(name, [*names, *instead])
        if meant is not None and meant in instead:
            raise UnknownOption(f"{called} takes no {name!r}; {instead[meant]}")
        listed = f"; did you mean {meant!r}?" if meant else f", but {', '.join(names)}"
        raise UnknownOption(f"{called} takes no {name!r}{listed}")


def missing_extra(
    error: ModuleNotFoundError, package: str, needed_by: str, extra: str
) -> ModuleNotFoundError:
    """The error for a package that an extra installs; the same error where another is missing."""
    if (error.name or "").partition(".")[0] != package:
        return error
    command = f"pip install 'marith[{extra}]'"
    return ModuleNotFoundError(
        f"{needed_by} needs {package}, which is not installed: {command}", name=package
    )


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
