"""A metric: a number for each text, kept as soon as it is computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from marith.engine.engine import Engine
from marith.evals.experiment.store import Journal
from marith.evals.experiment.texts import Key, Text

Better: TypeAlias = "Literal['lower', 'higher', '']"
DIRECTIONS: Mapping[str, Better] = {"down": "lower", "up": "higher"}
Values: TypeAlias = "dict[Key, float | None]"
ValuesOfTexts: TypeAlias = "Callable[[Sequence[Text]], Iterable[float | None]]"

GROUP_SIZE = 32  # texts that are measured together, always the same ones


class Metric(ABC):
    """A number for each text: a column of the table, and the file `name`.jsonl.

    `better` is the direction that is better, if one is. A metric `of_engine` needs the engine,
    which is open until all texts are generated; one with a model of its own runs after that.
    """

    name: str
    better: Better
    of_engine: ClassVar[bool] = False

    @abstractmethod
    def described(self) -> Mapping[str, Any]:
        """All that its numbers depend on, as plain data."""

    def check(self) -> None:  # noqa: B027 (most have nothing to check)
        """Raise a MarithError at once for what would be found out only after hours."""

    @abstractmethod
    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """Load what it needs. The result gives each text its number, or None."""


def values_of(
    load: Callable[[], ValuesOfTexts],
    texts: Sequence[Text],
    journal: Journal,
    advance: Callable[[int], None],
) -> Values:
    """The number of each text, read from the journal or new; `advance` receives how many are done.

    `load` is the metric's `open`, cached: where no number is missing, nothing is loaded. Texts are
    grouped in the same way whatever the journal holds: the last digits of a classifier's number
    depend on the texts beside it.
    """
    values: Values = {_key(line): line["value"] for line in journal.lines}
    for start in range(0, len(texts), GROUP_SIZE):
        group = texts[start : start + GROUP_SIZE]
        if any(text.key not in values for text in group):
            for text, value in zip(group, load()(group), strict=True):
                if text.key not in values:
                    line, row, sample = text.key
                    journal.add({"line": line, "row": row, "sample": sample, "value": value})
                    values[text.key] = value
        advance(len(group))
    return {text.key: values[text.key] for text in texts}


def _key(line: Mapping[str, Any]) -> Key:
    return line["line"], line["row"], line["sample"]
