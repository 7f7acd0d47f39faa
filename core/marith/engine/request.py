"""What a caller asks for, and how it becomes a job: text → formula → plan → readings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

from marith.decoding.sampling import Sampling
from marith.decoding.stopping import Stop
from marith.engine.plan import Plan
from marith.errors import RequestError
from marith.formula.binding import BARE, Terms, bind, parse, resolve
from marith.formula.checking import check
from marith.formula.nodes import Formula
from marith.formula.terms import Prompted, Term
from marith.scoring.panel import Panel
from marith.scoring.scorer import Message, Reading, Scorer
from marith.scoring.templates import to_messages


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, the formula that answers it, and how its tokens are drawn and stopped.

    After `timeout` seconds, waiting included, an unfinished request is given up and its caller
    gets DeadlineExceeded.
    """

    prompt: str | Sequence[Message]
    formula: str | Formula = BARE
    terms: Terms | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: Stop = field(default_factory=Stop)
    speculation: Literal["auto"] | None = "auto"
    timeout: float | None = None

    def __post_init__(self) -> None:
        for name, kind in (("sampling", Sampling), ("stop", Stop)):
            value: Any = getattr(self, name)
            if not isinstance(value, kind):
                raise RequestError(f"{name} is a {kind.__name__}, not {value!r}")
        if self.speculation not in (None, "auto"):
            raise RequestError(f"speculation is None or 'auto', not {self.speculation!r}")
        check_timeout(self.timeout)


def check_timeout(timeout: Any) -> None:
    """Raises RequestError for what is no time to wait."""
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < math.inf):
        raise RequestError(f"timeout is a finite number of seconds above 0, not {timeout!r}")


@dataclass(frozen=True, slots=True)
class Reader:
    """A plan with the scorer and the reading of each of its terms."""

    plan: Plan
    scorers: Mapping[Term, Scorer]
    readings: Mapping[Term, Reading]
    prompt_tokens: int
    room: int

    @classmethod
    def open(
        cls,
        prompt: str | Sequence[Message],
        formula: str | Formula,
        terms: Terms | None,
        panel: Panel,
        loading: AbstractContextManager[object],
    ) -> Reader:
        """Check, bind and read. Everything that can be wrong with a request is said here.

        Checkpoints that no term has named before are loaded in turns, under `loading`. `room` is
        how many tokens the shortest context still holds.
        """
        messages = to_messages(prompt)
        known = resolve(terms)
        asked = parse(formula)
        check(asked, known)
        plan = Plan.of(bind(asked, known))
        known_by_all = all(panel.has(term) for term in plan.terms)
        with nullcontext() if known_by_all else loading:
            scorers = {term: panel.scorer_of(term) for term in plan.terms}
        readings = {term: scorers[term].read(term, messages) for term in plan.terms}
        lengths = [
            (scorers[term].context_length, len(reading))  # type: ignore[attr-defined]
            for term, reading in readings.items()
            if isinstance(term, Prompted)
        ]
        bare = known[BARE]
        seen_by = bare if isinstance(bare, Prompted) and bare.model is None else Prompted()
        if seen_by in readings:
            visible = len(readings[seen_by])
        else:
            visible = panel.base.count(seen_by, messages)
        room = min((context - length for context, length in lengths), default=1 << 30)
        return cls(plan, scorers, readings, visible, room)
