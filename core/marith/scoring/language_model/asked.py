"""What a model is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from marith.scoring.language_model.lora import Adapter
from marith.tensor_rows import Row, gather


@dataclass(slots=True)
class Asked:
    """The log-probabilities after the last `count` prefixes of a prompt and its continuation.

    `lane` says whose text it is. `adapter` changes the weights that this lane is read with; `exits`
    are layers after which the model's log-probabilities are wanted too. Only texts of the same
    `salt` share prefixes.
    """

    lane: Hashable
    prompt: Sequence[int]
    count: int = 1
    adapter: Adapter | None = None
    exits: tuple[int, ...] = ()
    continuation: Sequence[int] = ()
    salt: str | None = None

    @property
    def tokens(self) -> list[int]:
        """The whole text."""
        return [*self.prompt, *self.continuation]

    @property
    def key(self) -> Hashable:
        """What texts have the same that share prefixes: what computes them, and the salt."""
        return self.adapter and self.adapter.key, self.salt

    def beside(self, other: Asked) -> Asked:
        """This question and another about the same text, as one."""
        exits = tuple(sorted({*self.exits, *other.exits}))
        return replace(self, count=max(self.count, other.count), exits=exits)


@dataclass(slots=True)
class Answer:
    """Log-probabilities, one row [vocab] a position, and the passes they took.

    `cached` counts the tokens that were at hand, `exits` holds the rows of early exits, by layer.
    """

    rows: Sequence[Row]
    exits: dict[int, list[Row]] = field(default_factory=dict)
    passes: frozenset[int] = frozenset()
    cached: int = 0

    @property
    def logprobs(self) -> Tensor:
        """The rows as one tensor, [count, vocab]."""
        return gather(self.rows)
