"""A model whose rotary frequencies depend on a text's length: each prefix is read by its own."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from marith.scoring.kv_cache.planned import Planned
from marith.scoring.language_model.asked import Answer, Asked
from marith.scoring.rotary.rotary_scaling import RotaryScaling

if TYPE_CHECKING:
    from marith.scoring.kv_cache.cache_limit import CacheLimit
    from marith.scoring.language_model.cached_runner import CachedRunner
    from marith.scoring.language_model.lanewise_runner import LanewiseRunner
    from marith.scoring.language_model.plain_runner import PlainRunner


class LengthRunner:
    """Asks another runner, and says by the frequencies of which length it reads.

    A question whose prefixes differ in them is asked in parts, one a call. A text has a lane up to
    the first limit and another one beyond, and so goes back below it without being read again.
    Keeps state, that changes the cost of an answer and never the answer: what is known of such
    questions.
    """

    def __init__(
        self, runner: CachedRunner | LanewiseRunner | PlainRunner, scaling: RotaryScaling
    ) -> None:
        self.runner = runner
        self.passes = runner.passes
        self.plain = runner.plain
        self._scaling = scaling
        self._known: dict[Hashable, tuple[Asked, list[Answer]]] = {}

    def ask(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """Answer what can be answered now.

        None where a text is still being read, or where the next call asks for longer prefixes.
        """
        answers = self.runner.ask([self._next(question) for question in questions])
        pairs = zip(questions, answers, strict=True)
        return [answer and self._whole(question, answer) for question, answer in pairs]

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes these texts take at most.

        One that may pass the first limit has two lanes then; beyond, it shares nothing for sure.
        """
        first = self._scaling.first
        beyond = [
            Planned(object(), text.prompt, text.more)
            for text in texts
            if first is not None and text.length > first
        ]
        return self.runner.memory([*texts, *beyond])

    def join(self, limit: CacheLimit) -> None:
        """Let a limit hold for what the other runner keeps too, from here on."""
        self.runner.join(limit)

    def release(self, owner: Hashable) -> None:
        """The lanes are free for other texts."""
        self._known.pop(owner, None)
        for beyond in (False, True):
            self.runner.release((owner, beyond))

    def forget(self) -> None:
        """Drop what all lanes hold."""
        self._known = {}
        self.runner.forget()

    def _next(self, question: Asked) -> Asked:
        """The first part of a question that is not answered."""
        parts = self._parts(question)
        known = self._known.pop(question.lane, None)
        answered = known[1] if known and known[0] == _written_out(question) else []
        if len(parts) > 1:
            self._known[question.lane] = _written_out(question), answered
        sides = {self._scaling.length(end) > 0 for end, _ in parts}
        for beyond in {False, True} - sides:
            self.runner.release((question.lane, beyond))
        return self._part(question, *parts[len(answered)])

    def _part(self, question: Asked, end: int, count: int) -> Asked:
        """What is asked about the last `count` prefixes of the first `end` tokens."""
        length, prompt = self._scaling.length(end), len(question.prompt)
        part = replace(
            question, lane=(question.lane, length > 0), count=count, rotary_length=length
        )
        if end < prompt + len(question.continuation):
            part.continuation = question.continuation[: max(0, end - prompt)]
            part.prompt = question.prompt if end >= prompt else question.prompt[:end]
        return part

    def _whole(self, question: Asked, answer: Answer) -> Answer | None:
        """The answer to a question of which another part is answered; None where parts lack."""
        if question.lane not in self._known:
            return answer
        _, answered = self._known[question.lane]
        answered.append(answer)
        if len(answered) < len(self._parts(question)):
            return None
        del self._known[question.lane]
        return Answer(
            [row for part in answered for row in part.rows],
            {layer: [r for part in answered for r in part.exits[layer]] for layer in answer.exits},
            frozenset().union(*(part.passes for part in answered)),
            answer.cached,
        )

    def _parts(self, question: Asked) -> list[tuple[int, int]]:
        tokens = len(question.prompt) + len(question.continuation)
        return [*self._scaling.parts(tokens, question.count)]


def _written_out(question: Asked) -> Asked:
    """The question with a text of its own, that nobody lets grow."""
    return replace(question, prompt=question.tokens, continuation=())
