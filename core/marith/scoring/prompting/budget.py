"""What a chat template may use up: letters of work, those that it reads and those that it makes."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set, Sized
from contextvars import ContextVar
from itertools import chain, permutations
from string import Formatter
from typing import Any, Never

from marith.errors import RequestError

BASE = 1_000_000  # letters of work for any messages
COPIES = 64  # of messages, tools and options, which a template may trim, join and look at
EACH = 32  # letters of an element, beside its own, and of a turn of a loop
MOST_COLUMNS = 1_000  # that a text is padded to
MOST_DEPTH = 1_000  # of lists in lists: what is nested deeper, Python's hash ends the process for
MOST_BITS = 64  # of a number that is computed: of larger ones, many have one hash

_COMPARING = {
    "eq", "ne", "lt", "lteq", "gt", "gteq", "==", "!=", "<", "<=", ">", ">=", "equalto",
    "greaterthan", "lessthan", "ge", "le",
}  # fmt: skip
HOLDING = {"in", "notin"}
# What reads no contents, but the number of elements; what reads the other values alone.
_SHALLOW = {
    "batch", "list", "map", "reject", "rejectattr", "reverse", "select", "selectattr", "slice",
}  # fmt: skip
LIGHT = {"endswith", "get", "items", "keys", "startswith", "values"}
_BY_ELEMENT = {*_SHALLOW, "groupby", "join", "max", "min", "sort", "sum", "unique"}
# What takes the other values to every letter, 16 at a time.
_BY_LETTER = {"lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip", "trim"}
_PADDING = {
    "batch", "center", "expandtabs", "indent", "ljust", "rjust", "round", "tojson", "zfill",
}  # fmt: skip
_PERCENT = {"%", "divisibleby", "even", "odd"}  # of a text they are all the first
_GROWING = {
    *_PADDING, *_PERCENT, "*", "**", "format", "format_map", "replace", "strftime_now", "sum",
}  # fmt: skip
_CONTAINERS = {dict, list, tuple}
_SIZED = (str, list, tuple, dict)


class Budget:
    """The letters left to one rendering, and the weight of every list that it has read.

    A weight is the length of a value as it is written. Lists do not change while a template
    runs, so what holds itself many times is weighed once.
    """

    def __init__(self, *given: Any) -> None:
        self._weights: dict[int, tuple[Any, int, int]] = {}  # the value, its weight, its depth
        self._depth = 0  # of the deepest part, while a list is weighed
        self._left = math.inf
        self._left = self._all = BASE + COPIES * self.weight(given)

    def spend(self, letters: float) -> None:
        """Take from what is left. Raises RequestError where it is not enough."""
        self._left -= letters
        if self._left < 0:
            self.require(0)

    def require(self, letters: float) -> None:
        """Raises RequestError where so much is not left."""
        if letters > self._left:
            raise RequestError(
                f"the chat template makes more than {self._all:,} letters, which is more than "
                "these messages need"
            )

    def weight(self, value: Any) -> int:
        """How long a value is, as it is written."""
        kind = type(value)
        if kind is str:
            return len(value)
        if kind not in _CONTAINERS:
            if isinstance(value, int):
                return 1 + value.bit_length() // 3
            if value is None:
                return 1
            if isinstance(value, str):
                return len(value)
            if isinstance(value, range):
                return 2 * EACH * len(value)
            if not isinstance(value, Collection):
                return 1
        weighed = self._weights.get(id(value))
        if weighed is not None:
            self._depth = max(self._depth, weighed[2])
            return weighed[1]
        weight = EACH * len(value)
        self.spend(weight)
        beside, self._depth = self._depth, 0
        parts = chain.from_iterable(value.items()) if isinstance(value, Mapping) else value
        for part in parts:
            weight += len(part) if type(part) is str else self.weight(part)
        depth = self._depth + 1
        if depth > MOST_DEPTH:
            raise RequestError(f"the chat template nests lists more than {MOST_DEPTH:,} deep")
        self._weights[id(value)] = (value, weight, depth)  # which keeps the value, and so its id
        self._depth = max(beside, depth)
        return weight

    def turns(self, items: Iterable[Any], each: float = 0) -> Iterator[Any]:
        """The items, each paid for when it is taken."""
        for item in items:
            self.spend(EACH + each + self.weight(item))
            yield item

    def read(self, name: str, main: Any, rest: Sequence[Any] = ()) -> Any:
        """Pay for what the operation `name` reads, `main` and the rest. Returns `main`."""
        if name in _COMPARING:
            self.spend(min(self.weight(main), *map(self.weight, rest)))
            return main
        if name in HOLDING and isinstance(rest[0], Mapping | Set):
            self.spend(self.weight(main))
            return main
        if name in HOLDING:
            refuse_loop(rest[0])
        others = sum(map(self.weight, rest)) if rest else 0
        each = others if name in _BY_ELEMENT else others / 16 if name in _BY_LETTER else 0
        count = len(main) if isinstance(main, Collection) else 0
        if name in _SHALLOW or (name in _BY_ELEMENT and isinstance(main, str)):
            main_letters = EACH * count
        else:
            main_letters = 0 if name in LIGHT else self.weight(main)
        self.spend(EACH + main_letters + others + count * each)
        if name in _GROWING:
            check_growth(self, name, main, rest)
        return self.turns(main, each) if count == 0 and isinstance(main, Iterator) else main

    def made(self, value: Any) -> Any:
        """A value that an operation has made, paid for."""
        if isinstance(value, _SIZED):
            self.spend(len(value))
        elif isinstance(value, int):
            check_number(value)
        elif isinstance(value, Iterator):
            return self.turns(value)
        elif isinstance(value, range):
            check_number(value.start)
            check_number(value.stop)
        return value

    # What the code of a template calls, where Jinja itself would not ask its environment.

    def text(self, value: Any) -> str:
        """A value as it is written."""
        if isinstance(value, str):
            self.spend(len(value))
            return value
        self.spend(self.weight(value))
        text = str(value)
        self.spend(len(text))
        return text

    def looked_up(self, key: Any) -> Any:
        """A key, or a side of a comparison of several."""
        refuse_loop(key)
        self.spend(self.weight(key))
        return key

    def sliced(self, value: Any, *bounds: Any) -> Any:
        """A slice of a value."""
        return self.made(value[slice(*bounds)])

    def added(self, left: Any, right: Any) -> Any:
        """A sum, as large as what it adds."""
        return self.made(left + right)

    def subtracted(self, left: Any, right: Any) -> Any:
        """A difference of numbers; that of the keys of dictionaries has no bound."""
        return refuse("-") if isinstance(left, Set) else self.made(left - right)

    def operated(self, name: str, left: Any, right: Any) -> Any:
        """What another operator makes of two values."""
        self.read(name, left, (right,))
        return self.made(OPERATORS[name](left, right))


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda one, all_: one in all_,
    "notin": lambda one, all_: one not in all_,
    "*": operator.mul,
    "**": operator.pow,
    "%": operator.mod,
}
LEFT: ContextVar[Budget] = ContextVar("left")  # of the template that runs


def check_growth(budget: Budget, name: str, main: Any, rest: Sequence[Any]) -> None:
    """Refuse what would make a value too large, before it is made."""
    numbers = [abs(each) for each in rest if isinstance(each, int)]
    sizes = [len(each) for each in rest if isinstance(each, str)]
    if name in _PADDING and max([*numbers, *sizes], default=0) > MOST_COLUMNS:
        raise RequestError(f"the chat template writes text in more than {MOST_COLUMNS} columns")
    match name:
        case "**" if isinstance(main, int) and abs(main) > 1 and numbers:
            check_number(1 << min(MOST_BITS, (main.bit_length() - 1) * numbers[0]))
        case "*":
            sides = (main, *rest)
            sizes = [len(each) for each in sides if isinstance(each, str | list | tuple)]
            budget.require(max(sizes, default=0) * max(_numbers(sides), default=0))
        case "replace":
            text = str(main)
            lengths = (text.count(a) * len(b) for a, b in permutations(map(str, rest), 2))
            budget.require(max(lengths, default=0))
        case "expandtabs" | "indent" if isinstance(main, str):
            budget.require(sum(map(str.isspace, main)) * max([*numbers, *sizes, 8]))
        case "strftime_now":
            budget.require(256 * sum(sizes))
        case "sum" if any(isinstance(each, list | tuple) for each in rest):
            refuse("sum(start=[])")
        case "format" | "format_map" if isinstance(main, str):
            _check_format(budget, main, rest)
        case _ if name in _PERCENT and isinstance(main, str):
            stars = sum(_numbers(rest)) if "*" in main else 0
            fields = main.count("%")
            budget.require(stars + _digits(main) + fields * sum(map(budget.weight, rest)))


def _check_format(budget: Budget, form: str, values: Sequence[Any]) -> None:
    wide = fields = 0
    for _, field, spec, _ in Formatter().parse(form):
        if "{" in (spec or "") or "." in (field or ""):
            refuse("{:{}}" if spec else "{0.x}")
        wide += _digits(spec or "")
        fields += field is not None
    budget.spend(fields * EACH)
    budget.require(wide + fields * sum(map(budget.weight, values)))


def _digits(form: str) -> int:
    """The sum of the numbers in a format, no less than what it pads."""
    return sum(map(int, re.findall(r"\d+", form)))


def _numbers(values: Sequence[Any]) -> Iterator[int]:
    for each in values:
        if isinstance(each, tuple):
            yield from _numbers(each)
        elif isinstance(each, int):
            yield abs(each)


def check_number(value: Any) -> None:
    """Raises RequestError for a number that is too large."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise RequestError(f"the chat template computes a number of more than {MOST_BITS} bits")


def refuse_loop(value: Any) -> None:
    """Raises RequestError for a `loop`, in which looking for a value takes turns at no cost."""
    if isinstance(value, Iterator) and isinstance(value, Sized):
        refuse("in loop")


def refuse(name: str) -> Never:
    """Raises RequestError for what a template may not use."""
    raise RequestError(f"a chat template may not use {name!r}: what it costs has no bound")
