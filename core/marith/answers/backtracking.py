"""Ban words: roll final tokens back, and decide which chunks can be emitted."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from marith.answers.output import Output
from marith.errors import RequestError, shown
from marith.request.completion import Chunk, TokenLogprob

MAX_REWINDS = 1000  # rewinds of one text


class Unreleased(NamedTuple):
    """A final token that may still be rolled back, the output before it, and its chunk."""

    before: Output
    token: int
    chunk: Chunk | None


class Backtracking:
    """Takes final tokens in order, and rolls the text back before a banned word. For one thread.

    When a banned word is complete, the text is rolled back to the place of the token in which the
    word begins. That token is forbidden at this place while the text before it stays unchanged. If
    a place has no token left, one more token is rolled back in the same way (decision 18).

    Example: "bad" is banned, and the tokens are `It`, ` is`, ` b`, `ad`, `.`. The last token shows
    that the word is complete: `take` returns 2, the place of ` b`, and ` b` is forbidden there.

    Each token is read only once: before each token that may be rolled back, a copy of the output is
    kept, and a rollback restores the copy.
    """

    def __init__(self, output: Output, ends: Collection[int], words: Sequence[str]) -> None:
        self.output = output
        self._words = words
        self.count = 0  # rewinds so far
        self._ends = sorted(ends)
        self._forbidden: dict[int, list[int]] = {}  # tokens, by place
        self._left: dict[int, int] = {}  # the number of tokens that are allowed, by place
        self._lasting: dict[int, bool] = {}  # True if a token is always left, by place
        self._unreleased: list[Unreleased] = []
        # Each of these is a number of tokens, counted from the beginning of the text. `_given`
        # counts the prefix, `_released` the tokens that `release` has returned, with the prefix,
        # and `_certain` the tokens that can no longer be rolled back.
        self._released = self._certain = self._given = output.count

    def allow(
        self, logprobs: Tensor, allowed: Tensor | None, places: Sequence[int], whole: bool
    ) -> Tensor | None:
        """Return the tokens that are allowed at some places, [places, vocab]; None for all tokens.

        `logprobs` [places, vocab] are composed, of all terms if `whole` is True. `allowed` [places,
        vocab] is the mask of a grammar, or None for every token. A place without an allowed token
        gets every token. If such a token is drawn from all terms, `take` rolls the text back; if it
        is drafted, it is verified later.
        """
        mask = logprobs > -math.inf
        if allowed is not None:
            mask &= allowed.to(mask.device)
        for row, place in zip(mask, places, strict=True):
            row[self._forbidden.get(place, [])] = False
        counts = mask.sum(dim=-1)
        if whole:
            self._note(mask, counts, places)
        if allowed is None and not any(place in self._forbidden for place in places):
            return None
        return mask | (counts == 0)[:, None]

    def take(self, token: int, logprob: TokenLogprob | None = None) -> int | None:
        """Take a token. Return the place to which the text is rolled back, or None if it continues.

        Raises RequestError if no text is left, and after too many rewinds.
        """
        place = self.output.count
        # No banned word has begun before this place, and the place keeps a token, so no rollback
        # passes it.
        if self._lasting[place] and not self.output.pending:
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
        """Return the new chunks of tokens that can no longer be rolled back.

        The text is never rolled back before a place if no banned word can have begun before it, and
        if the place always has a token left. A place always has a token left in two cases: an end
        token is allowed there (no banned word begins with an end token), or more tokens are allowed
        there than rewinds remain. A finished text is released as a whole.
        """
        finished = self.output.finish_reason is not None
        count = len(self._unreleased) if finished else self._certain - self._released
        chunks = [taken.chunk for taken in self._unreleased[:count] if taken.chunk is not None]
        del self._unreleased[:count]
        self._released += count
        return chunks

    def _note(self, mask: Tensor, counts: Tensor, places: Sequence[int]) -> None:
        ends = [end for end in self._ends if end < mask.shape[-1]]
        lasting = mask[:, ends].any(dim=-1) | (counts > MAX_REWINDS - self.count)
        columns = torch.stack([counts, lasting.to(counts)]).tolist()
        for place, count, always in zip(places, *columns, strict=True):
            self._left[place], self._lasting[place] = count, bool(always)

    def _place_of(self, character: int) -> int:
        """Return the place of the token in which a character begins."""
        latest_first = reversed(range(len(self._unreleased)))
        begins = (i for i in latest_first if self._unreleased[i].before.begun <= character)
        # Tokens of a prefix are never rolled back.
        return self._released + next(begins, 0)

    def _go_back(self, place: int) -> None:
        if place < self._given:
            raise RequestError("no answer is left: every first token leads to a banned word")
        if self.count == MAX_REWINDS:
            problem = (
                f"the ban {shown([*self._words])} rewound the text more than {MAX_REWINDS:,} times"
            )
            raise RequestError(f"{problem}; ban fewer words, or raise the temperature")
        self.count += 1
        assert place >= self._released, "what was emitted cannot be taken back"
        self.output, token, _ = self._unreleased[place - self._released]
        del self._unreleased[place - self._released :]
        # Tokens at later places were forbidden after a text that is dropped now.
        self._forbidden = {at: tokens for at, tokens in self._forbidden.items() if at <= place}
        self._forbidden.setdefault(place, []).append(token)
