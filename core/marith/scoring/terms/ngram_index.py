"""The tokens that followed each context, in fixed texts and in a growing text."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from marith.scoring.lane_text import common

# The arrays hold distinct tokens, and the count of each token.
Counted: TypeAlias = "tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]"
# A slice of a corpus's sorted places is given by its first index, and by one past its last index.
Places: TypeAlias = "tuple[int, int]"
# This number stands for a token before the beginning of a text.
_OUTSIDE = -1
# The results for this number of contexts of a corpus are cached.
_KEPT = 4096


class Corpus:
    """The tokens that followed each context of up to `depth` tokens, in fixed texts.

    All places of the texts are sorted by the token just before the place, then by the token before
    that token, and so on. So all places that follow a context are adjacent, and the places that
    follow a longer context are a part of them. Results for the most recently used contexts are
    cached.
    """

    def __init__(self, depth: int, texts: Iterable[Sequence[int]]) -> None:
        kept = [text for text in texts if len(text)]
        lengths = np.array([len(text) for text in kept], dtype=np.int64)
        self.depth = min(depth, int(lengths.max(initial=0)))
        self.largest = max((max(text) for text in kept), default=_OUTSIDE)
        # `depth` empty places precede each text, so that no context reaches into another text.
        empty = self.depth * np.repeat(np.arange(1, len(kept) + 1), lengths)
        places = (np.arange(len(empty)) + empty).astype(np.int32)
        tokens = np.full(len(places) + self.depth * len(kept), _OUTSIDE, dtype=np.int32)
        tokens[places] = [token for text in kept for token in text]
        older = [tokens[places - back] for back in range(self.depth, 0, -1)]
        self._places = places[np.lexsort(older)] if older else places
        self._tokens = tokens
        # Single items of a memory view are read faster than items of an array.
        self._place_at, self._token_at = self._places.data, tokens.data
        self._narrowed = lru_cache(maxsize=_KEPT)(self._narrow)
        self.counted = lru_cache(maxsize=_KEPT)(self._count)

    @property
    def nbytes(self) -> int:
        """The bytes of the texts and of their sorted places."""
        return self._tokens.nbytes + self._places.nbytes

    def contexts(self, before: Sequence[int]) -> list[Places]:
        """Return the places of the known contexts at the end of `before`.

        The empty context comes first. Each further context is one token longer.
        """
        places = 0, len(self._places)
        contexts = [places] if len(self._places) else []
        for back in range(1, min(self.depth, len(before)) + 1):
            places = self._narrowed(places, back, before[-back])
            if places[0] == places[1]:
                break
            contexts.append(places)
        return contexts

    def _narrow(self, places: Places, back: int, token: int) -> Places:
        """Return the part of `places` for which the token `back` positions earlier is `token`."""

        def older(place: int) -> int:
            return self._token_at[place - back]

        low = bisect_left(self._place_at, token, *places, key=older)
        return low, bisect_right(self._place_at, token, low, places[1], key=older)

    def _count(self, places: Places) -> Counted:
        """Return the distinct tokens at some places, in order, and the count of each."""
        return distinct_counts(self._tokens[self._places[slice(*places)]])


class GrowingText:
    """The tokens that followed each context of up to `depth` tokens, in a text whose end changes.

    Changes state. Adding or removing a token takes one small step for each length of context.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.text: list[int] = []
        self._reading: tuple[int, ...] = ()
        self._followers: dict[tuple[int, ...], array[int]] = {}

    def become(self, reading: tuple[int, ...], continuation: Sequence[int]) -> None:
        """Replace the text with `reading` and `continuation`. The common prefix stays."""
        if reading is not self._reading and reading != self._reading:
            self._shrink(0)
            self._reading = reading
        start, asked = len(reading), list(continuation)
        if len(self.text) < start:
            self._grow(reading[len(self.text) :])
        same = common(self.text[start:], asked)
        self._shrink(start + same)
        self._grow(asked[same:])

    def add(self, token: int) -> None:
        """Append a token."""
        for context in self._ends():
            followers = self._followers.get(context)
            if followers is None:
                self._followers[context] = array("i", (token,))
            else:
                followers.append(token)
        self.text.append(token)

    def contexts(self) -> list[array[int]]:
        """Return, for each known context at the text's end, the tokens that followed it, in order.

        The empty context comes first. Each further context is one token longer.
        """
        known = takewhile(self._followers.__contains__, self._ends())
        return [self._followers[context] for context in known]

    def _grow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.add(token)

    def _shrink(self, size: int) -> None:
        """Undo `add`, in reverse order, until the text has `size` tokens."""
        while len(self.text) > size:
            self.text.pop()
            for context in self._ends():
                followers = self._followers[context]
                followers.pop()
                if not followers:
                    del self._followers[context]

    def _ends(self) -> list[tuple[int, ...]]:
        """Return the contexts at the end of the text: first the empty one, the longest one last."""
        last = tuple(self.text[-self.depth :]) if self.depth else ()
        return [last[start:] for start in range(len(last), -1, -1)]


def distinct_counts(tokens: array[int] | npt.NDArray[np.int32]) -> Counted:
    """Return the distinct tokens in order, and the count of each."""
    distinct, counts = np.unique(np.asarray(tokens), return_counts=True)
    return distinct, counts
