"""A measure of one's own: a function from texts to numbers, given or named by its import path."""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from marith.engine.engine import Engine
from marith.errors import RequestError, shown
from marith.evals.experiment.texts import Text
from marith.evals.metrics.metric import Better, Metric, ValuesOfTexts
from marith.formula.scalars import plain

_SAMPLE = Text("M", 0, 0, 0, "Hello!", "Hello!", " Hello. How are you?", (0,), "stop", 1, 1)


class TextMeasure(Protocol):
    """A number for each text in its order, or None where a text has none.

    A text has its `text`, the `message` that it answers, the `prompt` and the sampled `tokens`.
    """

    def __call__(self, texts: Sequence[Text], /) -> Iterable[float | None]:
        """As many numbers as there are texts."""
        ...


@dataclass(frozen=True, slots=True)
class OwnMeasure(Metric):
    """A column that a function of one's own fills."""

    name: str
    function: TextMeasure
    better: Better = ""

    def described(self) -> Mapping[str, Any]:
        """The function and a digest of its code: a changed function is another measure."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        module = getattr(self.function, "__module__", "")
        return {"function": f"{module}:{name}", "code": _digest(self.function)}

    def check(self) -> None:
        """Measure one text that is made up: a fault is found before hours of generation."""
        self._values([_SAMPLE])

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """The function; raises RequestError for a result that is not a number for each text."""
        return self._values

    def _values(self, texts: Sequence[Text]) -> list[float | None]:
        result: Any = self.function(texts)
        if not isinstance(result, Iterable):
            problem = f"the measure {self.name!r} returns a number for each text"
            raise RequestError(f"{problem}, not {shown(result)}")
        numbers = list(result)
        if len(numbers) != len(texts):
            counts = f"{len(numbers)} numbers for {len(texts)} texts"
            raise RequestError(f"the measure {self.name!r} returns {counts}")
        return [self._number(number) for number in numbers]

    def _number(self, value: Any) -> float | None:
        number = plain(value)
        if number is None or (isinstance(number, float) and math.isnan(number)):
            return None
        if not isinstance(number, (int, float)):
            problem = f"the measure {self.name!r} returns numbers or None"
            raise RequestError(f"{problem}, not {shown(value)}")
        return float(number)


def names_function(path: str) -> bool:
    """Whether `package.module:name` is of a module that is installed or lies here."""
    module, _, name = path.partition(":")
    if not (all(part.isidentifier() for part in module.split(".")) and name.isidentifier()):
        return False
    if Path(module).is_dir():  # a classifier of that name
        return False
    with _here():
        try:
            spec = find_spec(module)
        except (ImportError, ValueError):
            return False
    return spec is not None and spec.origin is not None


def imported(path: str) -> Any:
    """What an import path names. Raises RequestError where the module cannot be imported."""
    module, _, name = path.partition(":")
    with _here():
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            raise RequestError(f"cannot import the measure {path!r}: {error}") from None
        except AttributeError:
            raise RequestError(f"the module {module!r} has no measure {name!r}") from None


@contextmanager
def _here() -> Iterator[None]:
    """Modules of the current directory can be imported, as by `python -m`."""
    directory = os.getcwd()
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def _digest(function: Any) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # typed at a prompt, or an object
        return ""
    return hashlib.sha256(source.encode()).hexdigest()
