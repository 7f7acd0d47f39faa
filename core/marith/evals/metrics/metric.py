"""What a measure is, and the figures that it gives to texts, each kept as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from marith.engine.engine import Engine
from marith.evals.experiment.store import Journal
from marith.evals.experiment.texts import Key, Text

Better: TypeAlias = "Literal['lower', 'higher', '']"
Values: TypeAlias = "dict[Key, float | None]"
ValuesOfTexts: TypeAlias = "Callable[[Sequence[Text]], Iterable[float | None]]"

TOGETHER = 32  # texts that are judged at once, always the same ones together


class Metric(Protocol):
    """A number for each text: a column of the table, and the file `name`.jsonl.

    `better` says which way it should go, and `of_engine` whether the engine is asked, which is
    open until all texts are made; what has a model of its own is asked after that.
    """

    @property
    def name(self) -> str:
        """What the column is called."""

    @property
    def better(self) -> Better:
        """Which way is better, if one is."""

    @property
    def of_engine(self) -> bool:
        """Whether it asks the engine."""

    def described(self) -> Mapping[str, Any]:
        """All that its numbers depend on, as plain data."""

    def check(self) -> None:
        """Raise a MarithError at once for what would be found out only after hours."""

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """Load what it needs. The answer gives texts their numbers, or None to one without."""


def values_of(
    measure: Metric,
    texts: Sequence[Text],
    journal: Journal,
    engine: Engine | None,
    tell: Callable[[int], None],
) -> Values:
    """The number of each text, those in the journal as they are; `tell` hears how many are done.

    Texts are asked about in the same groups whatever is known already: the last digits of a
    judge's number depend on the texts beside it.
    """
    known: Values = {_key(line): line["value"] for line in journal.lines}
    ask: ValuesOfTexts | None = None
    for start in range(0, len(texts), TOGETHER):
        group = texts[start : start + TOGETHER]
        if any(text.key not in known for text in group):
            ask = ask or measure.open(engine)
            for text, value in zip(group, ask(group), strict=True):
                if text.key not in known:
                    line, row, sample = text.key
                    journal.add({"line": line, "row": row, "sample": sample, "value": value})
                    known[text.key] = value
        tell(len(group))
    return {text.key: known[text.key] for text in texts}


def _key(line: Mapping[str, Any]) -> Key:
    return line["line"], line["row"], line["sample"]
