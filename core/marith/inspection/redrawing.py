"""Draws each token of a finished text again, from other distributions, by the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from marith.answers.answer_grammar import AnswerGrammars
from marith.decoding import cuts
from marith.decoding.constraints.constraint import Constraint
from marith.decoding.constraints.custom import CustomConstraint
from marith.decoding.constraints.least_length import LeastLength
from marith.decoding.constraints.matcher import Matcher
from marith.decoding.constraints.penalties import Penalties
from marith.decoding.random_numbers import DRAW, uniform
from marith.decoding.sampling import drawn, warp
from marith.engine.prepare import Prepared
from marith.errors import RequestError
from marith.request.completion import Completion
from marith.request.plan import Plan
from marith.request.request import Request

NO_TOKEN = -1  # where nothing may follow


class Redrawing:
    """The constraints, the cuts and the random numbers of a request, at the places of its text.

    `tokens` are the completion's; with `ended` the end that was drawn after them is one more
    position. Raises RequestError for a request whose draws cannot be repeated.
    """

    def __init__(
        self,
        request: Request,
        prepared: Prepared,
        completion: Completion,
        answers: AnswerGrammars,
    ) -> None:
        _require_repeatable(request)
        self.tokens = tuple(completion.tokens)
        self.ended = completion.finish_reason != "length" and completion.stop_string is None
        self._ends = request.stop.ends(answers.vocabulary.eos_ids)
        self._sampling = request.sampling
        self._text = [*prepared.prefix, *self.tokens]
        self._first = len(prepared.prefix)
        self._grammar = answers.compiled(request, prepared.opened)
        self._constraints: list[Constraint] = [*map(CustomConstraint, request.constraints)]
        if request.stop.min_tokens:
            least = self._first + request.stop.min_tokens
            self._constraints.append(LeastLength(self._ends, least))
        if request.sampling.penalises:
            self._constraints.append(Penalties(request.sampling))

    @property
    def continuation(self) -> list[int]:
        """What was read, from the prefix on; with an end where one was drawn."""
        return [*self._text, *sorted(self._ends)[: self.ended]]

    @property
    def start(self) -> int:
        """How many tokens of the continuation are the prefix."""
        return self._first

    def drawn(self, composed: Tensor, start: int) -> list[int]:
        """A token for each row of composed log-probabilities, which begin at position `start`."""
        places = [*range(self._first + start, self._first + start + len(composed))]
        stuck = torch.zeros(len(composed), dtype=torch.bool)
        if self._grammar is not None:
            allowed = Matcher(self._grammar).allowed(self._text, places)
            may = (composed > -math.inf) & allowed.to(composed.device)
            stuck = ~may.any(dim=-1)
            composed = cuts.keep(composed, may | stuck[:, None])
        for constraint in self._constraints:
            composed = constraint.apply(composed, self._text, places)
        tokens = self._tokens(composed, places).masked_fill(stuck.to(composed.device), NO_TOKEN)
        return [int(token) for token in tokens.tolist()]

    def first_flip(self, tokens: Sequence[int]) -> int | None:
        """The first position whose token is another than the text's; an end is like any other."""
        for place, token in enumerate(tokens):
            same = token in self._ends if place == len(self.tokens) else token == self.tokens[place]
            if not same:
                return place
        return None

    def _tokens(self, rows: Tensor, places: Sequence[int]) -> Tensor:
        sampling = self._sampling
        if sampling.temperature == 0.0:
            return rows.topk(1, dim=-1).indices[:, 0]
        assert sampling.seed is not None, "refused above"
        numbers = uniform([sampling.seed] * len(places), places, [0] * len(places))[:, DRAW]
        masses = warp(rows, sampling.warping).double().exp()
        return drawn(masses, torch.from_numpy(numbers.copy()))


def _require_repeatable(request: Request) -> None:
    """Raises RequestError for a request whose draws are not a function of seed and place."""
    problem = ""
    if request.ban is not None:
        problem = "a ban takes tokens back and draws others in their place"
    elif not request.steered:
        problem = "with tools that are not steered, calls are not drawn from the formula"
    elif request.sampling.temperature > 0 and request.sampling.seed is None:
        problem = "the request has no seed; write Sampling(seed=…), or temperature=0"
    elif request.sampling.temperature > 0 and isinstance(request.speculation, Plan):
        problem = "a plan draws by its drafts; write speculation='auto' or None"
    if problem:
        raise RequestError(f"the draws of this text cannot be repeated: {problem}")
