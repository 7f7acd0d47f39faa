"""Ask a runner until it has answered, and compute the answers of the uncached model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from support.uncached_logits import logits_after
from torch import Tensor

from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.tree.terms import Term
from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.questions import Answer, Reading, RequestLane, Span
from marith.scoring.scorer import Scorer
from marith.scoring.weights.lora_files import Adapter

VOCAB = 28
CONTEXT = 128
CLOSE = 1e-4  # for tiny models whose logits are scaled up; others agree to 1e-5


def uncached(model: Any, text: Sequence[int], count: int = 1) -> Tensor:
    """Return the model's own log-softmax after each of the last `count` prefixes."""
    return torch.log_softmax(logits_after(model, text, count).float(), dim=-1)


class LaneByName(RequestLane):
    """A lane that equals every lane of its name, so that a test can ask it about another text."""

    __slots__ = ("name",)

    def __init__(self, name: Hashable, *fields: Any) -> None:
        super().__init__(*fields)
        self.name = name

    def __eq__(self, other: object) -> bool:
        return bool(self.name == getattr(other, "name", other))

    def __hash__(self) -> int:
        return hash(self.name)


def span_of(
    name: Hashable,
    prompt: Sequence[int],
    count: int = 1,
    adapter: Adapter | None = None,
    exits: tuple[int, ...] = (),
    continuation: Sequence[int] = (),
    salt: str | None = None,
) -> Span:
    """Return a span of the last `count` positions of a text, in the lane with this name."""
    lane = LaneByName(name, tuple(prompt), (adapter and adapter.key, salt), adapter, exits)
    return Span(BARE_MODEL, lane, continuation, count)


def opened(scorer: Scorer, term: Term, reading: Reading) -> RequestLane:
    """Return the lane that a term's scorer opens for a text."""
    return scorer.open([term], reading, None, scorer.load(term))


def ask(runner: CachedRunner, questions: Sequence[Span]) -> list[Answer]:
    """Ask until every question is answered. A question that is answered is not asked again."""
    answers: dict[Any, Answer] = {}
    for _ in range(1000):
        left = [question for question in questions if question.lane not in answers]
        if not left:
            return [answers[question.lane] for question in questions]
        for question, answer in zip(left, runner.ask(left), strict=True):
            if answer is not None:
                answers[question.lane] = answer
    raise AssertionError("the runner answers nothing")


def runner_of(model: Any) -> CachedRunner:
    runner = start_runner(model, VOCAB, CONTEXT)
    assert not runner.plain
    return runner


def text(length: int) -> list[int]:
    """Return a text without repetitions for a while."""
    return [(i * i + 3 * i) % 23 for i in range(length)]
