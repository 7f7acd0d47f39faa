"""What followed each context: in texts that are given once, and in one that grows and shrinks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from marith.scoring.passes.lanes import common

Counted: TypeAlias = "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]"

_OUTSIDE = -1  # what stands before a text begins


class Followers(Protocol):
    """The tokens that followed one context."""

    @property
    def total(self) -> int:
        """How often the context was followed by anything."""
        ...

    @property
    def best(self) -> tuple[int, int]:
        """The token that followed most often, and how often."""
        ...

    def counted(self) -> Counted:
        """The distinct tokens that followed, [n], and how often each did, [n]."""
        ...


class Corpus:
    """What followed the contexts of up to `depth` tokens, in texts that are given once.

    All places are sorted by the tokens before them, read backwards. So a context's places stand
    together, and each older token narrows them. Counts are made when a context is first met.
    """

    def __init__(self, depth: int, texts: Iterable[Sequence[int]]) -> None:
        kept = [text for text in texts if len(text)]
        lengths = np.array([len(text) for text in kept], dtype=np.int64)
        self.depth = min(depth, int(lengths.max(initial=0)))
        self.largest = max((max(text) for text in kept), default=_OUTSIDE)
        # Each text stands behind `depth` empty places, so that no context reaches into another.
        empty = self.depth * np.repeat(np.arange(1, len(kept) + 1), lengths)
        places = (np.arange(len(empty)) + empty).astype(np.int32)
        tokens = np.full(len(places) + self.depth * len(kept), _OUTSIDE, dtype=np.int32)
        tokens[places] = [token for text in kept for token in text]
        older = [tokens[places - back] for back in range(self.depth, 0, -1)]
        self._places = places[np.lexsort(older)] if older else places
        self._tokens = tokens
        self._place_at, self._token_at = self._places.data, tokens.data  # quicker one by one
        self._root = _Places(self, 0, len(places))

    @property
    def nbytes(self) -> int:
        """What the texts and their sorted places weigh."""
        return self._tokens.nbytes + self._places.nbytes

    def contexts(self, before: Sequence[int]) -> list[Followers]:
        """The known contexts at the end of `before`: the empty one, then one token longer each."""
        place = self._root
        contexts: list[Followers] = [place] if place.total else []
        for back in range(1, min(self.depth, len(before)) + 1):
            token = before[-back]
            narrower = place.narrower.get(token) or self._narrowed(place, back, token)
            if narrower is None:
                break
            place = narrower
            contexts.append(place)
        return contexts

    def _narrowed(self, context: _Places, back: int, token: int) -> _Places | None:
        """Those places of a context that have `token` so many places before them."""

        def older(place: int) -> int:
            return self._token_at[place - back]

        low, high = context.low, context.high
        low = bisect_left(self._place_at, token, low, high, key=older)
        high = bisect_right(self._place_at, token, low, high, key=older)
        if low == high:
            return None
        context.narrower[token] = narrower = _Places(self, low, high)
        return narrower

    def counted(self, low: int, high: int) -> Counted:
        """The distinct tokens at some of the sorted places, in order, and their counts."""
        tokens, counts = np.unique(self._tokens[self._places[low:high]], return_counts=True)
        return tokens.astype(np.int64), counts.astype(np.int64)

    def best(self, low: int, high: int) -> tuple[int, int]:
        """The token most often at some of the sorted places, the smallest of several."""
        if high - low == 1:
            return self._token_at[self._place_at[low]], 1
        tokens, counts = self.counted(low, high)
        at = int(counts.argmax())
        return int(tokens[at]), int(counts[at])


class _Places:
    """Where one context of a corpus occurs, among its sorted places; `Followers`."""

    __slots__ = ("_best", "_corpus", "_counted", "high", "low", "narrower")

    def __init__(self, corpus: Corpus, low: int, high: int) -> None:
        self._corpus = corpus
        self.low, self.high = low, high
        self.narrower: dict[int, _Places] = {}
        self._counted: Counted | None = None
        self._best: tuple[int, int] | None = None

    @property
    def total(self) -> int:
        return self.high - self.low

    @property
    def best(self) -> tuple[int, int]:
        if self._best is None:
            self._best = self._corpus.best(self.low, self.high)
        return self._best

    def counted(self) -> Counted:
        if self._counted is None:
            self._counted = self._corpus.counted(self.low, self.high)
        return self._counted


class GrowingText:
    """What followed the contexts of up to `depth` tokens, in one text that grows and shrinks.

    Changes state: a token more or a token less costs one small step for each length of context.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.text: list[int] = []
        self._reading: tuple[int, ...] = ()
        self._followers: dict[tuple[int, ...], _Stack] = {}

    def become(self, reading: tuple[int, ...], continuation: Sequence[int]) -> None:
        """Be this text, from the longest beginning that it shares with the present one."""
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
        """One token more."""
        followers = self._followers
        for context in self._ends():
            stack = followers.get(context)
            if stack is None:
                followers[context] = _Stack(token)
            else:
                stack.push(token)
        self.text.append(token)

    def contexts(self) -> list[Followers]:
        """The known contexts at the text's end: the empty one, then one token longer each."""
        contexts: list[Followers] = []
        for context in self._ends():
            stack = self._followers.get(context)
            if stack is None:
                break
            contexts.append(stack)
        return contexts

    def _grow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.add(token)

    def _shrink(self, size: int) -> None:
        """Take back, in reverse order, what `add` did."""
        followers = self._followers
        while len(self.text) > size:
            token = self.text.pop()
            for context in self._ends():
                stack = followers[context]
                if stack.total == 1:
                    del followers[context]
                else:
                    stack.pop(token)

    def _ends(self) -> list[tuple[int, ...]]:
        """The text's last tokens: none of them, then one more each, up to `depth`."""
        last = tuple(self.text[-self.depth :]) if self.depth else ()
        return [last[start:] for start in range(len(last), -1, -1)]


class _Stack:
    """What followed one context of a growing text, the last to come the first to go; `Followers`.

    Of tokens that followed equally often, the one seen last is best.
    """

    __slots__ = ("_bests", "_counts")

    def __init__(self, token: int) -> None:
        self._bests = [(token, 1)]  # the best after each push
        self._counts: dict[int, int] | None = None  # made for the second: most have but one

    @property
    def total(self) -> int:
        return len(self._bests)

    @property
    def best(self) -> tuple[int, int]:
        return self._bests[-1]

    def push(self, token: int) -> None:
        if self._counts is None:
            self._counts = {self._bests[0][0]: 1}
        self._counts[token] = count = self._counts.get(token, 0) + 1
        best = self._bests[-1]
        self._bests.append(best if best[1] > count else (token, count))

    def pop(self, token: int) -> None:
        """Take back the last push; the first is taken back by dropping the whole."""
        assert self._counts is not None, "made by the second push"
        self._bests.pop()
        self._counts[token] -= 1
        if not self._counts[token]:
            del self._counts[token]

    def counted(self) -> Counted:
        counts = self._counts or {self._bests[0][0]: 1}
        tokens = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
        return tokens, np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
