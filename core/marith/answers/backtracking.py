"""What a ban takes back of a text in the making, and what of it is emitted for good."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from marith.answers.output import Output
from marith.errors import RequestError
from marith.request.completion import Chunk, TokenLogprob

MOST = 1000  # rewinds of one text


class Unreleased(NamedTuple):
    """A final token that may yet be taken back: the output before it, and the chunk after it."""

    before: Output
    token: int
    chunk: Chunk | None


class Backtracking:
    """Takes final tokens in order, and says where the text goes back to. For one thread.

    A banned word takes the text back to the token in which it begins. That token may not stand
    there any more, as long as the text before it is the same. Where no token is left, the text
    goes back by one token more in the same way (decision 18). Each token is read once: a copy of
    the output is kept before each token that may be taken back, and to go back is to take it.
    """

    def __init__(self, output: Output, ends: Collection[int]) -> None:
        self.output = output
        self.count = 0
        self._ends = sorted(ends)
        self._forbidden: dict[int, list[int]] = {}
        self._left: dict[int, int] = {}  # how many tokens may stand at a place
        self._firm: dict[int, bool] = {}  # whether some token may, whatever is taken back later
        self._unreleased: list[Unreleased] = []
        self._released = self._certain = 0  # how many tokens are, and how many can be

    def allow(
        self, logprobs: Tensor, allowed: Tensor | None, places: Sequence[int], whole: Sequence[bool]
    ) -> Tensor | None:
        """What may stand at some places, [places, vocab]; None for any token.

        `logprobs` [places, vocab] are composed, of all terms where it is `whole`; `allowed`
        [places, vocab] is what a grammar allows, None for any token. Where nothing is left,
        anything: what is drawn there from all terms is not taken, and a draft is verified.
        """
        may = logprobs > -math.inf
        if allowed is not None:
            may &= allowed.to(may.device)
        for row, place in zip(may, places, strict=True):
            row[self._forbidden.get(place, [])] = False
        counts = may.sum(dim=-1)
        self._note(may, counts, places, whole)
        if allowed is None and not any(place in self._forbidden for place in places):
            return None
        return may | (counts == 0)[:, None]

    def take(self, token: int, logprob: TokenLogprob | None = None) -> int | None:
        """One token more; the place that the text goes back to, None where it goes on.

        Raises RequestError where no text is left, and after too many rewinds.
        """
        place = self.output.count
        if self._firm[place] and not self.output.pending:
            self._certain = place
        if self._left[place] == 0:
            back: int | None = place - 1
        else:
            before = self.output.copy()
            chunk = self.output.take(token, logprob)
            self._unreleased.append(Unreleased(before, token, chunk))
            banned = self.output.banned
            back = None if banned is None else self._place_of(banned)
        if back is not None:
            self._go_back(back)
        return back

    def release(self) -> list[Chunk]:
        """The chunks that have come to be certain.

        A text does not go back before a place that no banned word reaches over and that always has
        a token left: the one that ends the text, for no word begins with that; or any, where there
        are more of them than rewinds.
        """
        finished = self.output.finish_reason is not None
        count = len(self._unreleased) if finished else self._certain - self._released
        chunks = [one.chunk for one in self._unreleased[:count] if one.chunk is not None]
        del self._unreleased[:count]
        self._released += count
        return chunks

    def _note(
        self, may: Tensor, counts: Tensor, places: Sequence[int], whole: Sequence[bool]
    ) -> None:
        ends = [end for end in self._ends if end < may.shape[-1]]
        firm = may[:, ends].any(dim=-1) | (counts > MOST - self.count)
        columns = torch.stack([counts, firm.to(counts)]).tolist()
        for place, count, sure, complete in zip(places, *columns, whole, strict=True):
            if complete:
                self._left[place], self._firm[place] = count, bool(sure)

    def _place_of(self, character: int) -> int:
        """The place of the token that began a character."""
        latest_first = reversed(range(len(self._unreleased)))
        index = next(i for i in latest_first if self._unreleased[i].before.begun <= character)
        return self._released + index

    def _go_back(self, place: int) -> None:
        if place < 0:
            raise RequestError("no answer is left: each token to begin with led to what is banned")
        if self.count == MOST:
            raise RequestError(f"the text is given up: it came to what is banned {MOST + 1} times")
        self.count += 1
        assert place >= self._released, "what was emitted cannot be taken back"
        self.output, token, _ = self._unreleased[place - self._released]
        del self._unreleased[place - self._released :]
        self._forbidden = {at: tokens for at, tokens in self._forbidden.items() if at <= place}
        self._forbidden.setdefault(place, []).append(token)
