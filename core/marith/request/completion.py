"""The answer to a request: its text, in chunks or whole, and its cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from marith.errors import RequestError, shown
from marith.formula.tree.printing import distinct, renamed

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool. `arguments` is JSON in which non-ASCII characters are not escaped."""

    id: str
    name: str
    arguments: str

    @property
    def is_whole(self) -> bool:
        """True if the arguments are JSON, and False if the call was cut off."""
        try:
            json.loads(self.arguments)
        except ValueError:
            return False
        return True

    @property
    def parsed(self) -> dict[str, Any]:
        """The arguments as a dict. Raises ValueError if the call was cut off."""
        parsed: dict[str, Any] = json.loads(self.arguments)
        return parsed


@dataclass(frozen=True, slots=True)
class CallChunk:
    """A piece of a call. Only the first piece of a call has the id and the name."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """A token and its log-probability. `data` are the bytes of the token."""

    token: int
    text: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob(TopLogprob):
    """A token of a text, with its log-probability before temperature and grammar.

    `logprob` comes from the composed distribution. `top` are the likeliest tokens at the position.
    `terms` maps the text of each term to the token's log-probability. `offset` counts the
    characters of the answer before the token, including reasoning and calls. Tokens that
    together form one character have the offset of that character.
    """

    top: tuple[TopLogprob, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text that became final in a step. The last chunk has the finish reason.

    `text` does not include `reasoning` and `calls`. If an inspection was requested, the last chunk
    has the `marith.Inspection` of all tokens.
    """

    text: str
    tokens: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    reasoning: str = ""
    calls: tuple[CallChunk, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    inspection: Any = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Usage:
    """The numbers of tokens, in the vocabulary of the engine's model.

    `prompt_tokens` counts the prompt as the bare model reads it. `cached_tokens` counts the prompt
    tokens that every lane had cached. `completion_tokens` includes `reasoning_tokens`.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The number of tokens of prompt and completion."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class StageStats:
    """The number of drafted tokens that a part of a formula verified, and how many it accepted.

    `predicted` is the expected share of accepted tokens: the mean of 1 − total variation between
    the distribution that drafted a token and the distribution of the part (paper, lemma 3). Tokens
    after a rejected token are not evaluated.
    """

    part: str
    evaluated: int
    accepted: int
    predicted: float

    @property
    def acceptance(self) -> float:
        """The share of the evaluated tokens that were accepted."""
        return self.accepted / self.evaluated


@dataclass(frozen=True, slots=True)
class TermStats:
    """The cost of one term: its prompt tokens, how many of them were cached, and its calls.

    For a classifier, `prompt_tokens` and `cached_tokens` are 0, because a classifier reads text,
    not the tokens of the prompt.
    """

    prompt_tokens: int
    cached_tokens: int
    calls: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The cost of a completion.

    - `passes`: forward passes.
    - `calls`: evaluations of terms. Several positions at once are one call, as in the paper.
    - `judgements`: candidates that classifiers scored.
    - `cached`: cached prompt tokens, over all lanes of language models.
    - `drafted`: tokens that were proposed before every term had scored them.
    - `accepted`: drafted tokens that are in the text.
    - `stages`: the parts of the formula that verified drafts.
    - `terms`: the cost of each term, by its text.
    - `rewinds`: how often a ban rolled tokens back. `tokens` does not count these tokens.
    - `implausible`: the share of tokens that every prompted term finds unlikely: less than a tenth
      as probable as the term's likeliest token. Most texts whose share is above one half are
      nonsense. It is 0 for a formula of one term.
    - `uncut`: the number of tokens that were sampled without the cuts of the formula, such as
      `min_p`, because the cuts and the grammar of the answer left no token in common.
    - `paused`: how often the request was paused because memory was short. Its text was read again,
      and `passes` count this too.
    """

    tokens: int
    passes: int
    calls: int
    seconds: float
    drafted: int = 0
    accepted: int = 0
    judgements: int = 0
    cached: int = 0
    stages: tuple[StageStats, ...] = ()
    terms: Mapping[str, TermStats] = field(default_factory=dict)
    rewinds: int = 0
    implausible: float = 0.0
    uncut: int = 0
    paused: int = 0

    @property
    def passes_per_token(self) -> float:
        """The number of forward passes for each token of the text."""
        return self.passes / max(1, self.tokens)

    @property
    def calls_per_token(self) -> float:
        """The number of evaluations of terms for each token of the text."""
        return self.calls / max(1, self.tokens)

    @property
    def judgements_per_token(self) -> float:
        """The number of candidates that classifiers scored for each token of the text."""
        return self.judgements / max(1, self.tokens)

    @property
    def acceptance(self) -> float | None:
        """The share of drafted tokens that are in the text; None if no token was drafted.

        Drafts that were discarded before verification count here, but not in `stages`.
        """
        return self.accepted / self.drafted if self.drafted else None


class LengthWarning(str):
    """The warning that `max_tokens` is larger than `room`, the tokens that fit after the prompt."""

    __slots__ = ("room",)
    room: int

    @classmethod
    def of(cls, max_tokens: int, room: int) -> LengthWarning:
        """Return the warning of a request."""
        says = f"the context has room for {room} tokens after the prompt"
        warning = cls(f"max_tokens is {max_tokens}, but {says}; the answer has at most {room}")
        warning.room = room
        return warning


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished text. `tokens` are the sampled tokens, without an end-of-text token.

    `stop_string` is the stop string that ended the text. It is not in `text`, but its tokens are in
    `tokens`, unless it is the name of a special token that ended the text. `text` does not include
    `calls` and `reasoning`. A call that `max_tokens` cut off is included as far as it was
    generated. `logprobs` and `inspection`, a `marith.Inspection`, are None unless they were
    requested. `warnings` say, for example, that `max_tokens` is larger than the room in the
    context, that factors are too large, or that a call was cut off. `formula` is the text of the
    formula that answered.
    """

    text: str
    tokens: list[int]
    finish_reason: FinishReason
    usage: Usage
    stats: Stats
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    stop_string: str | None = None
    inspection: Any = None
    warnings: tuple[str, ...] = ()
    formula: str = ""

    def without_texts(self, names: Mapping[str, str]) -> Completion:
        """Return the completion without the texts of terms, for readers who may not see them.

        `names` maps the text of a term to the name that replaces it. "…" replaces other texts.
        """
        stages = (replace(each, part=renamed(each.part, names)) for each in self.stats.stages)
        stats = replace(self.stats, stages=tuple(stages), terms=_renamed(self.stats.terms, names))
        logprobs = self.logprobs and tuple(
            replace(token, terms=_renamed(token.terms, names)) for token in self.logprobs
        )
        inspection = self.inspection and self.inspection.without_texts()
        formula = renamed(self.formula, names)
        return replace(self, stats=stats, logprobs=logprobs, inspection=inspection, formula=formula)

    def __repr__(self) -> str:
        calls = [f"calls {', '.join(call.name for call in self.calls)}"] * bool(self.calls)
        after = [*calls, self.finish_reason, _counted(len(self.tokens)), _time(self.stats.seconds)]
        return f"<Completion {_brief(self.text)}: {', '.join(after)}>"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Ranking:
    """Some texts with the probability of each text, the likeliest text first.

    `text` is the likeliest text. `logprobs` are the log-probabilities that an answer begins with
    each text: sums over the tokens of the text. `probabilities` are normalised over the texts.
    """

    text: str
    probabilities: Mapping[str, float]
    logprobs: Mapping[str, float]

    @classmethod
    def of(cls, logprobs: Mapping[str, float]) -> Ranking:
        """Return the ranking for these log-probabilities. Raises RequestError if all are −∞."""
        ranked = dict(sorted(logprobs.items(), key=lambda item: -item[1]))
        best = next(iter(ranked))
        if ranked[best] == -math.inf:
            raise RequestError(
                f"the formula gives each of the options {shown([*logprobs])} the probability 0; a "
                "cut in the formula, such as top_k, may exclude their tokens: write a weaker cut, "
                "or none"
            )
        # The probability of a long text underflows, but not its ratio to the largest probability.
        odds = {text: math.exp(value - ranked[best]) for text, value in ranked.items()}
        total = math.fsum(odds.values())
        return cls(best, {text: odd / total for text, odd in odds.items()}, ranked)

    def __str__(self) -> str:
        return self.text


# A `repr` shows at most this number of characters of a text.
_SHOWN = 60


def _renamed(terms: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Replace the texts of terms with names. A name that repeats gets a number after it."""
    return dict(zip(distinct(renamed(text, names) for text in terms), terms.values(), strict=True))


def _brief(text: str) -> str:
    """Return a text in quotation marks. A long text is cut, and its length is added."""
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r}… ({len(text)} characters)"


def _counted(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens} tokens"


def _time(seconds: float) -> str:
    # With three digits, 1000 would be written as "1e+03".
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
