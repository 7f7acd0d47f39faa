"""What a ban takes back of a text in the making, and what of it may be told for good."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from marith.answers.ban_detector import Watch
from marith.errors import RequestError
from marith.request.completion import TokenLogprob

MOST = 1000  # rewinds of one text
Made: TypeAlias = tuple[int, TokenLogprob | None]  # a final token, and its log-probability


class Rewinding:
    """Takes final tokens in order, and says where the text goes back to. For one thread.

    A banned word takes the text back to the token in which it begins. That token may not stand
    there any more, as long as the text before it is the same. Where no token is left, the text
    goes back by one token more in the same way (decision 18).
    """

    def __init__(self, watch: Watch, ends: Collection[int]) -> None:
        self.count = 0
        self._watch = watch
        self._ends = sorted(ends)
        self._forbidden: dict[int, list[int]] = {}
        self._left: dict[int, int] = {}  # how many tokens may stand at a place
        self._firm: dict[int, bool] = {}  # whether some token may, whatever is taken back later
        self._untold: list[Made] = []
        self._told = self._certain = 0

    def allow(
        self, logprobs: Tensor, allowed: Tensor | None, places: Sequence[int], whole: Sequence[bool]
    ) -> Tensor | None:
        """What may stand at some places, [places, vocab]; None for any token.

        `logprobs` [places, vocab] are composed, of all terms where it is `whole`; `allowed` is as
        in `Trial`. Where nothing is left, anything: what is drawn there by all terms is not taken,
        and what some draft there is checked.
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

    def take(self, token: int, logprob: TokenLogprob | None) -> int | None:
        """One token more; the place that the text goes back to, None where it goes on.

        Raises RequestError where no text is left, and after too many rewinds.
        """
        place = len(self._watch.tokens)
        if self._watch.clear and self._firm[place]:
            self._certain = place
        if self._left[place] == 0:
            back: int | None = place - 1
        else:
            self._untold.append((token, logprob))
            back = self._watch.take(token)
        if back is not None:
            self._go_back(back)
        return back

    def release(self) -> list[Made]:
        """What has come to be certain, and may be told.

        A text does not go back before a place that no banned word reaches over and that always has
        a token left: the one that ends the text, for no word begins with that; or any, where there
        are more of them than rewinds.
        """
        count = len(self._untold) if self._watch.over else self._certain - self._told
        made, self._untold = self._untold[:count], self._untold[count:]
        self._told += count
        return made

    def _note(
        self, may: Tensor, counts: Tensor, places: Sequence[int], whole: Sequence[bool]
    ) -> None:
        ends = [end for end in self._ends if end < may.shape[-1]]
        firm = may[:, ends].any(dim=-1) | (counts > MOST - self.count)
        known = torch.stack([counts, firm.to(counts)]).tolist()
        for place, count, sure, spoken in zip(places, *known, whole, strict=True):
            if spoken:
                self._left[place], self._firm[place] = count, bool(sure)

    def _go_back(self, place: int) -> None:
        if place < 0:
            raise RequestError("no answer is left: each token to begin with led to what is banned")
        if self.count == MOST:
            raise RequestError(f"the text is given up: it came to what is banned {MOST + 1} times")
        self.count += 1
        assert place >= self._told, "what was told cannot be taken back"
        self._forbidden = {at: own for at, own in self._forbidden.items() if at <= place}
        self._forbidden.setdefault(place, []).append(self._watch.tokens[place])
        del self._untold[place - self._told :]
        self._watch.rewind(place)
