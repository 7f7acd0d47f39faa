"""The text of an inspection in whole characters, each with the tokens that are its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from marith.request.inspected.inspected_position import InspectedPosition


@dataclass(frozen=True, slots=True)
class TokenRun:
    """A token, or the tokens of one character, with their text."""

    text: str
    positions: Sequence[InspectedPosition]

    @property
    def logprob(self) -> float | None:
        """The log-probability of all tokens together; None where one cannot follow."""
        return _sum([position.logprob for position in self.positions])

    @property
    def push(self) -> float | None:
        """How much likelier the formula made all tokens together, in nats."""
        return _sum([position.push for position in self.positions])

    @property
    def flipped(self) -> bool:
        """Whether one of the tokens is not the bare model's likeliest."""
        return any(position.flipped for position in self.positions)


def runs_of(positions: Sequence[InspectedPosition]) -> Iterator[TokenRun]:
    """The tokens in their order; those of one character together."""
    parts: list[InspectedPosition] = []
    for position in positions:
        if position.completed is None:
            yield TokenRun(position.text, [position])
        else:
            parts.append(position)
            if position.completed:
                yield TokenRun(position.completed, parts)
                parts = []
    if parts:
        yield TokenRun("".join(position.text for position in parts), parts)


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
