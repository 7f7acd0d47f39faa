"""From which length on a model's rotary frequencies are others, as its configuration says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

_LONG, _DYNAMIC = "longrope", "dynamic"
_LIMITS = {_LONG: "original_max_position_embeddings", _DYNAMIC: "max_position_embeddings"}


@dataclass(frozen=True, slots=True)
class RotaryScaling:
    """Beyond each of the `limits` a text has other frequencies for all its tokens (`longrope`).

    Beyond `steady` tokens each length has its own (`dynamic`); None where no length has. See
    `dynamic_rope_update` of transformers.
    """

    limits: tuple[int, ...] = ()
    steady: int | None = None

    @property
    def first(self) -> int | None:
        """The longest text that all shorter ones share their frequencies with; None for any."""
        return min((*self.limits, *([] if self.steady is None else [self.steady])), default=None)

    def reached(self, context_length: int) -> bool:
        """Whether texts of a context have different frequencies."""
        return self.first is not None and self.first < context_length

    def length(self, tokens: int) -> int:
        """The shortest text with the frequencies of one of so many tokens; 0 for the first ones."""
        if self.steady is not None and tokens > self.steady:
            return tokens
        return max((limit + 1 for limit in self.limits if tokens > limit), default=0)

    def parts(self, tokens: int, count: int) -> Iterator[tuple[int, int]]:
        """The last `count` prefixes of a text, by frequencies: the longest, and how many."""
        for _, alike in groupby(range(tokens - count + 1, tokens + 1), self.length):
            lengths = [*alike]
            yield lengths[-1], len(lengths)


def rotary_scaling(config: Any) -> RotaryScaling:
    """That of a configuration of transformers, whose kinds of layers may have different ones."""
    text = config.get_text_config()
    given = getattr(text, "rope_parameters", None) or {}
    limits: dict[str, list[int]] = {_LONG: [], _DYNAMIC: []}
    for rope in (given, *(one for one in given.values() if isinstance(one, dict))):
        if key := _LIMITS.get(kind := rope.get("rope_type", "")):
            limits[kind].append(int(rope.get(key) or getattr(text, key)))
    return RotaryScaling(tuple(sorted(limits[_LONG])), min(limits[_DYNAMIC], default=None))


def lower_limits(config: Any, limit: int) -> None:
    """Let the frequencies of a configuration change beyond fewer tokens: at most `limit`."""
    text = config.get_text_config()
    given = getattr(text, "rope_parameters", None) or {}
    for rope in (given, *(one for one in given.values() if isinstance(one, dict))):
        if key := _LIMITS.get(rope.get("rope_type", "")):
            for holder in (rope, vars(text)):
                if isinstance(holder.get(key), int):
                    holder[key] = min(limit, holder[key])
