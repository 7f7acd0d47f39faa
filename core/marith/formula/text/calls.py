"""The functions that formula text may call, by name: marith's own, and other people's."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from marith.errors import FormulaError, MarithError, UnknownOption, shown, suggestion
from marith.formula.tree import factors, operators, signals
from marith.formula.tree.factors import Varying, is_number, plain
from marith.formula.tree.node import Node
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, NGram, Prompted, Term, Uniform

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Method = TypeVar("Method", bound=Callable[..., Any])

CALLS: dict[str, Callable[..., Node]] = {
    "prompted": Prompted,
    "classifier": Classifier,
    "ngram": NGram,
    "uniform": Uniform,
    **{name: getattr(operators, name) for name in (
        "union", "intersection", "supersede", "unscaled",
        "relu", "mixture", "where", "self_debias", "posterior", "agreed",
    )},
    **{name: getattr(signals, name) for name in (
        "jsd", "renyi", "entropy", "max_prob", "margin", "indicator", "class_prob", "first",
        "decay", "position", "reasoning", "calling", "balance",
    )},
    **{name: getattr(factors, name) for name in ("maximum", "minimum", "sigmoid")},
}  # fmt: skip
# Untrusted text may call these names. The parser restricts the calls that make terms.
BUILT_IN = {*CALLS}
# The name of the bare model.
BARE = "M"
# The group of entry points in which installed packages offer functions.
GROUP = "marith_methods"
# How similar an unknown call must be to a name that a message suggests. Words with different
# meanings, such as `mean` and `margin`, or `strength` and `system_strength`, are less similar.
_CUTOFF = 0.7


def define(name: str, build: Callable[..., Node]) -> None:
    """Let formulas call a function by a name. The function returns a formula or a factor.

    Its arguments are checked against its annotations, as the arguments of a recipe are. Untrusted
    text may call it only if `allowed` lists the name. Raises FormulaError for a name that already
    has a meaning, and for a name that is not a plain word.
    """
    is_word = isinstance(name, str) and name.isidentifier() and name.isascii()
    if not is_word or keyword.iskeyword(name) or name == BARE:
        raise FormulaError(f"a formula calls a function by a plain word, not by {shown(name)}")
    if not callable(build):
        raise FormulaError(f"{name!r} is defined by a function, not by {shown(build)}")
    register(name, checked(name, build))


def register(name: str, build: Callable[..., Node]) -> None:
    """Register a function that formulas call. Raises FormulaError for a name that is taken."""
    # `checked` makes a new wrapper each time, so the functions inside are compared.
    if inspect.unwrap(CALLS.setdefault(name, build)) is not inspect.unwrap(build):
        raise FormulaError(f"{name!r} already means something in a formula")


def opens_files(name: str) -> bool:
    """Return whether a call makes a term that reads a model or a file.

    Untrusted text must never make such a call.
    """
    build = CALLS.get(name)
    is_term = isinstance(build, type) and issubclass(build, Term)
    return is_term and build not in (Prompted, Uniform)


@cache
def offered() -> dict[str, list[EntryPoint]]:
    """Return the entry points of all installed packages by name. No package is imported."""
    # This module is slow to import, and rarely needed.
    from importlib.metadata import entry_points

    by_name: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        by_name.setdefault(point.name, []).append(point)
    return by_name


def check_allowed(names: Collection[str], trusted: bool) -> None:
    """Check the `names` that untrusted text may call, and import the packages that define them.

    Raises FormulaError for an undefined name, for a term that opens a model or a file, and for any
    name if the text is `trusted`.
    """
    if listed(names) and trusted:
        raise FormulaError("allowed is only for untrusted text: write trusted=False too")
    for name in names:
        if opens_files(name):
            problem = f"allowed contains {name!r}, which untrusted text must not call"
            raise FormulaError(f"{problem}; define it as one of the application's terms")
        if not load_function(name):
            problem = f"allowed contains {shown(name)}, which is not the name of a function"
            raise FormulaError(f"{problem}{near(name, offered())}")


def listed(names: Any) -> list[Any]:
    """Return the names in `allowed`. Raises FormulaError unless it is a list of texts."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Collection):
        raise FormulaError(f"allowed is a list of names of functions, not {shown(names)}")
    for name in names:
        if not isinstance(name, str):
            problem = f"allowed contains {shown(name)}, which is not the name of a function"
            raise FormulaError(problem)
    return [*names]


def load_function(name: str) -> bool:
    """Define the function that a package offers by a name. Return whether the name is defined.

    marith's own functions, and functions that are already defined, keep their names. Raises
    FormulaError if several packages offer the name, or if the function cannot be imported.
    """
    if name in CALLS:
        return True
    points = offered().get(name, [])
    if len({point.value for point in points}) > 1:
        packages = ", ".join(sorted(point.dist.name if point.dist else "?" for point in points))
        raise FormulaError(f"several packages offer {name!r}: {packages}")
    if not points:
        return False
    try:
        build = points[0].load()
    except Exception as error:
        package = f" of {points[0].dist.name}" if points[0].dist else ""
        problem = f"{name!r}{package} cannot be imported from {points[0].value!r}"
        raise FormulaError(f"{problem}: {error}") from error
    define(name, build)
    return True


def near(name: object, others: Iterable[str] = ()) -> str:
    """Return a hint that names the most similar call, or "". `others` are further names."""
    return suggestion(name, [*CALLS, *others], cutoff=_CUTOFF) if isinstance(name, str) else ""


def checked(name: str, method: Method) -> Method:
    """Wrap a method so that it raises FormulaError for arguments that do not fit its signature.

    The wrapper checks the annotations too. It also raises FormulaError for a result that is neither
    a formula nor a factor, and for an error in the method.
    """
    try:
        signature = inspect.signature(method)
    except ValueError:
        # Some functions that are written in C have no signature.
        raise FormulaError(
            f"{name!r} cannot be defined as {shown(method)}, because Python does not show its "
            "arguments; define a Python function that calls it"
        ) from None

    @wraps(method)
    def asked(*args: Any, **named: Any) -> Node:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            raise misfit(name, method, args, named, error) from None
        for parameter, value in bound.arguments.items():
            _check(name, signature.parameters[parameter], value)
        try:
            result = method(*args, **named)
        except (MarithError, MemoryError):
            raise
        except Exception as error:
            raise FormulaError(f"{name} failed with {type(error).__name__}: {error}") from error
        if not isinstance(result, (Formula, Varying)):
            raise FormulaError(f"{name} must return a formula or a factor, not {shown(result)}")
        return result

    return cast(Method, asked)


def _is_factor(value: object) -> bool:
    return isinstance(value, Varying) or is_number(value)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Formula": ("a formula", lambda value: isinstance(value, Formula)),
    "Factor": ("a number or a function of the context", _is_factor),
    "Varying": ("a function of the context", lambda value: isinstance(value, Varying)),
    "float": ("a number", is_number),
    "int": ("a whole number", lambda value: isinstance(plain(value), int) and is_number(value)),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "str": ("a text", lambda value: isinstance(value, str)),
    "Sequence[Factor]": (
        "a list of numbers",
        lambda value: isinstance(value, (list, tuple)) and all(map(_is_factor, value)),
    ),
    "None": ("None", lambda value: value is None),
}


def _check(name: str, parameter: inspect.Parameter, value: Any) -> None:
    """Raise FormulaError for a value that does not fit the annotation of its parameter.

    If the annotation is not in `_KINDS`, the method must check the value itself.
    """
    annotation = inspect.formatannotation(parameter.annotation).strip("'")
    names = [kind.rpartition(".")[2] for kind in annotation.split(" | ")]
    if not all(kind in _KINDS for kind in names):
        return
    kinds = [_KINDS[kind] for kind in names]
    several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    for argument in value if several else (value,):
        if not any(fits(argument) for _, fits in kinds):
            wanted = " or ".join(kind for kind, _ in kinds)
            raise FormulaError(f"{parameter.name} of {name} is {wanted}, not {shown(argument)}")


def misfit(
    name: str,
    build: Callable[..., object],
    positional: Sequence[object],
    named: Collection[str],
    error: TypeError,
) -> FormulaError:
    """Return the error for arguments that do not fit a call; it shows the call's signature.

    If `error` already says what to write instead of an unknown argument, its sentence is kept.
    """
    if isinstance(error, UnknownOption):
        return FormulaError(str(error))
    signature = inspect.signature(build)
    taken = signature.parameters.values()
    takes = ", ".join(str(each.replace(annotation=each.empty)) for each in taken)
    try:
        signature.bind(*positional, **dict.fromkeys(named))
    except TypeError as problem:
        return FormulaError(f"{name}({takes}): {problem}")
    return FormulaError(str(error))
