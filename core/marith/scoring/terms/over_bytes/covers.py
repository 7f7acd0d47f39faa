"""The distribution of the next byte of a text, from the covers of its bytes.

A cover of some bytes is a token sequence whose last token ends at or after the last byte. Its other
tokens are the ones that the tokenizer writes for their text. The probability of the bytes is the
sum of the probabilities of their covers, and a conditional probability is a quotient of two such
sums (Vieira et al., 2024; Phan et al., 2024). `docs/explanation/bytes.md` derives it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from marith.scoring.lane_text import common
from marith.scoring.terms.over_bytes.byte_vocabulary import END, SIZE
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

# A text that is rolled back by this number of bytes or more is read again from its beginning.
KEPT = 128
# A cover that ends at the last byte has at least this weight, so that the text can always go on.
_LEAST = 1e-300
# A byte of less probability is impossible. So small are only the weights of covers of this kind.
_IMPOSSIBLE = 1e-200
# A token is compared with at most this number of tokens before it.
_COMPARED = 128


@dataclass(slots=True, eq=False)
class Cover:
    """Whole tokens, and all tokens that may follow them and reach beyond the last byte.

    The tokens that may follow are the slice from `low` to `high` of the sorted tokens: they begin
    with the `depth` bytes that come after `tokens`. `weight` is proportional to the probability of
    `tokens`. `masses` are the probabilities of the slice, and `ends` those of the tokens that end a
    text; both are None before the model was asked. The tokens from `start` on are canonical.
    """

    tokens: tuple[int, ...]
    weight: float
    low: int
    high: int
    depth: int = 0
    start: int = 0
    masses: np.ndarray | None = None
    ends: np.ndarray | None = None

    @property
    def mass(self) -> float:
        """The probability of all its token sequences, on the scale of `weight`."""
        return self.weight if self.masses is None else self.weight * float(self.masses.sum())


@dataclass(slots=True)
class _Place:
    """The covers of a text up to a place, and the log-probabilities [257] of its next byte."""

    covers: list[Cover]
    row: Tensor | None = None


class CoveredText:
    """A text that grows byte by byte or is rolled back, and the distribution after each byte.

    `before` are the last tokens before the text, with which its first tokens are compared. If
    `canonical` is None, covers are not compared, so all token sequences count.

    Keeps state: the covers of the last `KEPT` places, and the distributions there. The state never
    changes a distribution.
    """

    def __init__(
        self, tokens: SortedTokens, canonical: CanonicalTokens | None, before: Sequence[int] = ()
    ) -> None:
        self._tokens, self._canonical, self._before = tokens, canonical, tuple(before)
        self._forget()

    def _forget(self) -> None:
        """Begin the text again."""
        self._data: list[int] = []
        # The log-likelihoods of all beginnings of the text.
        self._sums = [0.0]
        # The last places, the newest last.
        self._places = deque([_Place([self._new_cover((), 1.0)])], maxlen=KEPT)
        # The answers that were read ahead: the probabilities of all tokens, and of the ends.
        self._answers: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}

    def wanted(self, data: Sequence[int], count: int = 1) -> tuple[int, ...] | None:
        """Return tokens after which the model's distribution is needed for a text.

        Return None if the distributions at the last `count` places of the text are known.
        """
        assert count <= KEPT
        self._roll_back(data, count)
        while True:
            place = self._places[-1]
            if place.row is not None and len(self._data) == len(data):
                return None
            self._fill(place.covers)
            unread = next((cover for cover in place.covers if cover.masses is None), None)
            if unread is not None:
                # The text did not go on as was likely, so the other answers are not needed.
                self._answers.clear()
                return unread.tokens
            if place.row is None:
                place.row = self._row(place.covers)
            else:
                self._advance(data[len(self._data)], place.covers, place.row)

    def covers_ahead(self, data: Sequence[int], most: int) -> list[tuple[int, ...]]:
        """Return the tokens of at most `most` covers that are likely to be wanted next.

        Call this after `wanted`, for the same text. It is likely that the text goes on with the
        bytes of `data` that are not read yet, or as the likeliest token does.
        """
        covers: Sequence[Cover] = self._places[-1].covers
        unread = dict.fromkeys(cover.tokens for cover in covers if cover.masses is None)
        for byte in data[len(self._data) :] or self._likeliest_bytes(covers):
            # The first cover is the one that is wanted now.
            if len(unread) > most or byte == END or byte in self._tokens.lacking:
                break
            covers = self._after_byte(covers, byte)
            unread |= dict.fromkeys(cover.tokens for cover in covers if not cover.depth)
        return [*unread][1 : most + 1]

    def receive(self, tokens: tuple[int, ...], logprobs: Tensor) -> None:
        """Take the log-probabilities [vocab] after the tokens of a cover."""
        row = logprobs.cpu().double().numpy()
        self._answers[tokens] = np.exp(row[self._tokens.ids]), np.exp(row[self._tokens.end_ids])

    def rows(self, count: int) -> list[Tensor]:
        """Return the log-probabilities [257] at the last `count` places, at most `KEPT`."""
        rows = [self._places[i].row for i in range(-count, 0)]
        return [row for row in rows if row is not None]

    def likelihoods(self, count: int, start: int = 0) -> list[float]:
        """Return the log-likelihood of the bytes from `start` on, at the last `count` places."""
        return [end - self._sums[start] for end in self._sums[-count:]]

    def _fill(self, covers: Sequence[Cover]) -> None:
        """Give the covers the answers that the model has given for them."""
        for cover in covers:
            if cover.masses is None and cover.tokens in self._answers:
                masses, cover.ends = self._answers.pop(cover.tokens)
                cover.masses = masses[cover.low : cover.high]

    def _likeliest_bytes(self, covers: Sequence[Cover]) -> bytes:
        """Return the bytes with which the likeliest token goes on after the last byte."""
        # The likeliest token of each cover whose last token goes beyond the last byte.
        likeliest = [
            (
                cover.weight * float(cover.masses.max()),
                cover.low + int(cover.masses.argmax()),
                cover,
            )
            for cover in covers
            if cover.depth and cover.masses is not None
        ]
        if not likeliest:
            return b""
        _, place, cover = max(likeliest, key=lambda one: one[0])
        return self._tokens.sorted_bytes[place][cover.depth :]

    def _roll_back(self, data: Sequence[int], count: int) -> None:
        """Drop the bytes from the first one on that differs from a text.

        If too few places would be left for the last `count` places of the text, begin it again.
        """
        same = common(self._data, list(data))
        dropped = len(self._data) - same
        left = len(self._places) - dropped
        if left <= 0 or left + len(data) - same < count:
            self._forget()
            return
        for _ in range(dropped):
            self._places.pop()
        del self._data[same:], self._sums[same + 1 :]

    def _row(self, covers: Sequence[Cover]) -> Tensor:
        """Return the log-probabilities [257] of the next byte, and of the end."""
        mass = np.zeros(SIZE)
        for cover in covers:
            assert cover.masses is not None
            next_bytes = self._tokens.column(cover.depth, cover.low, cover.high)
            # A slice has no token that ends here, because such a token begins a cover of its own.
            firsts = np.flatnonzero(np.diff(next_bytes, prepend=-1))
            mass[next_bytes[firsts]] += cover.weight * np.add.reduceat(cover.masses, firsts)
            if cover.depth == 0 and cover.ends is not None:
                mass[END] += cover.weight * float(cover.ends.sum())
        mass[mass < _IMPOSSIBLE] = 0
        if not mass.any():
            # The model allows nothing but special tokens, which no text has.
            mass.fill(1)
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(mass / mass.sum())).float()

    def _advance(self, byte: int, covers: Sequence[Cover], row: Tensor) -> None:
        """Append a byte or an end to a text with these covers and this distribution."""
        is_lacking = byte in self._tokens.lacking
        # Like any token that a model lacks, such a byte has the log-likelihood 0.
        self._sums.append(self._sums[-1] + (0.0 if is_lacking else float(row[byte])))
        if is_lacking:
            # The model reads the text without this byte.
            after = [replace(cover) for cover in covers if not cover.depth]
        elif byte == END:
            after = self._after_end(covers)
        else:
            after = self._after_byte(covers, byte)
        total = _at_least(sum(cover.mass for cover in after))
        for cover in after:
            cover.weight /= total
        # Older covers keep their tokens and weights. If the text is rolled back, the model is asked
        # again for their probabilities.
        for cover in covers:
            cover.masses = cover.ends = None
        self._data.append(byte)
        self._places.append(_Place(after))

    def _after_byte(self, covers: Sequence[Cover], byte: int) -> list[Cover]:
        """Return the covers of a text with one more byte."""
        whole: list[Cover] = []
        longer: list[Cover] = []
        for cover in covers:
            next_bytes = self._tokens.column(cover.depth, cover.low, cover.high)
            start, stop = (int(place) for place in np.searchsorted(next_bytes, (byte, byte + 1)))
            low, high = cover.low + start, cover.low + stop
            ended = int(np.searchsorted(self._tokens.column(cover.depth + 1, low, high), 0))
            # Where the model was not asked, any token may follow.
            masses = np.ones(high - low) if cover.masses is None else cover.masses[start:stop]
            for place in np.flatnonzero(masses[:ended]):
                tokens = (*cover.tokens, int(self._tokens.ids[low + place]))
                weight = _at_least(cover.weight * float(masses[place]))
                whole.append(self._new_cover(tokens, weight, cover.start))
            if masses[ended:].any():
                rest = None if cover.masses is None else masses[ended:].copy()
                longer.append(
                    replace(cover, low=low + ended, high=high, depth=cover.depth + 1, masses=rest)
                )
        kept = self._kept(whole or [self._forced(covers, byte)])
        first = min(cover.start for cover in kept)
        # Where no cover was canonical, one was kept. It gives way to a canonical one that was open.
        return [cover for cover in (*kept, *longer) if cover.start <= first]

    def _forced(self, covers: Sequence[Cover], byte: int) -> Cover:
        """Return a cover of a text that goes on with a byte that the model considers impossible.

        The byte is a token by itself. If there is no such token, the model does not read it.
        """
        best = _likeliest(covers)
        place = bisect_left(self._tokens.sorted_bytes, bytes([byte]))
        if self._tokens.sorted_bytes[place : place + 1] != [bytes([byte])]:
            return replace(best, weight=_LEAST)
        tokens = (*best.tokens, int(self._tokens.ids[place]))
        return self._new_cover(tokens, _LEAST, best.start)

    def _kept(self, whole: Sequence[Cover]) -> Sequence[Cover]:
        """Return the covers whose last token has just ended, without those that are not canonical.

        If no cover is left, as where the text is not UTF-8, the likeliest one is kept, and later
        tokens are compared without its tokens. So some cover always ends at the last byte, and
        every byte may follow.
        """
        if self._canonical is None:
            return whole
        kept = [cover for cover in whole if self._goes_on(cover)]
        if not kept:
            best = _likeliest(whole)
            kept = [replace(best, start=len(best.tokens))]
        return kept

    def _goes_on(self, cover: Cover) -> bool:
        assert self._canonical is not None
        first = max(cover.start, len(cover.tokens) - 1 - _COMPARED)
        own = cover.tokens[first:] if first else (*self._before, *cover.tokens)
        return not own or self._canonical.goes_on(own[:-1], own[-1])

    def _after_end(self, covers: Sequence[Cover]) -> list[Cover]:
        """Return the covers of a text that goes on after an end: one, with the likeliest end."""
        best = _likeliest(covers)
        assert best.ends is not None
        end = int(self._tokens.end_ids[int(best.ends.argmax())])
        tokens = (*best.tokens, end)
        return [self._new_cover(tokens, 1.0, len(tokens))]

    def _new_cover(self, tokens: tuple[int, ...], weight: float, start: int = 0) -> Cover:
        """Return a cover that ends at the last byte: any token may follow it."""
        return Cover(tokens, weight, 0, len(self._tokens), start=start)


def _at_least(weight: float) -> float:
    """Return a weight, or `_LEAST` if it is smaller. NaN stays NaN, and reaches the next row."""
    return float(np.maximum(weight, _LEAST))


def _likeliest(covers: Sequence[Cover]) -> Cover:
    """Return the likeliest cover that ends at the last byte. Of equal ones, the tokens decide."""
    ended = (cover for cover in covers if not cover.depth)
    return max(ended, key=lambda cover: (cover.weight, cover.tokens))
