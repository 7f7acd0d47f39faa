"""The answer to a request: its text, in chunks and whole, and its cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from marith.errors import RequestError
from marith.formula.tree.printing import distinct, renamed

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool; `arguments` are JSON, in which no letters are escaped."""

    id: str
    name: str
    arguments: str

    @property
    def parsed(self) -> dict[str, Any]:
        """The arguments. Raises ValueError where the text was cut off before their end."""
        parsed: dict[str, Any] = json.loads(self.arguments)
        return parsed


@dataclass(frozen=True, slots=True)
class CallChunk:
    """A piece of a call: the first one of a call has its id and name, all have arguments."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token and its log-probability; `data` are the bytes of its text."""

    token: int
    text: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob(Alternative):
    """A token of a text, by the composed distribution before temperature and grammar.

    `top` are the likeliest tokens in its place; `terms` has the log-probability of the token for
    each term, by the term's text. `offset` counts the characters of the answer before the token,
    reasoning and calls included; a token that goes on with a character has the offset where the
    character begins.
    """

    top: tuple[Alternative, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text that became certain in a step; the last chunk has the finish reason.

    `reasoning` and `calls` are no part of `text`. The last chunk has the `marith.Inspection` of all
    tokens too, if one was requested.
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
    """Tokens, counted in the base model's vocabulary.

    `prompt_tokens` are those of the prompt as the bare model reads it; `cached_tokens` of them had
    their keys and values cached in every lane. `reasoning_tokens` count as completion tokens too.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class StageStats:
    """How many drafted tokens one part of a formula has verified, and how many it accepted.

    `evaluated` tokens were verified, and `accepted` is how many were kept. `predicted` is the
    expected share of accepted tokens: the mean of 1 − the total variation between the distribution
    that the tokens were drawn from and the distribution of the part (paper, lemma 3). Tokens after
    one that was not accepted are not evaluated.
    """

    part: str
    evaluated: int
    accepted: int
    predicted: float

    @property
    def acceptance(self) -> float:
        """Return the share of the evaluated tokens that were accepted."""
        return self.accepted / self.evaluated


@dataclass(frozen=True, slots=True)
class TermStats:
    """The cost of one term: tokens of its prompt, how many of them were cached, and its calls.

    For a classifier, which reads texts, `prompt_tokens` and `cached_tokens` are 0.
    """

    prompt_tokens: int
    cached_tokens: int
    calls: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The cost of a completion.

    `passes` counts forward passes; `calls` counts evaluations of terms as the paper does, several
    positions at once being one call; `judgements` counts the candidates that classifiers scored.
    `cached` counts prompt tokens whose keys and values were cached, over all lanes of language
    models. `drafted` counts tokens that were proposed before every term had scored them, `accepted`
    those of them that are in the text; `stages` has the parts of the formula that verified them.
    `terms` has the cost of each term, by its text. `rewinds` counts how often a ban took tokens
    back; such tokens cost as much as others, and do not count in `tokens`. `implausible` is the
    share of tokens that no prompted term of the formula finds a tenth as likely as its likeliest:
    beyond one half most texts are nonsense. It is 0 for a formula that is one term, and
    where the models are on an accelerator, on which it is not counted.
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

    @property
    def passes_per_token(self) -> float:
        """Forward passes for one token of text."""
        return self.passes / max(1, self.tokens)

    @property
    def calls_per_token(self) -> float:
        """Evaluations of terms for one token of text."""
        return self.calls / max(1, self.tokens)

    @property
    def judgements_per_token(self) -> float:
        """Candidates that classifiers scored for one token of text."""
        return self.judgements / max(1, self.tokens)

    @property
    def acceptance(self) -> float | None:
        """The share of drafted tokens that are in the text; None where nothing was drafted.

        Tokens that were discarded before verification count as drafted; `stages` counts only those
        that were evaluated.
        """
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished text: `tokens` are all that were sampled, without the one that ends a text.

    A stop string is not in `text`, though its tokens are in `tokens`; `stop_string` is the one
    that ended the text. `calls` and `reasoning` are no part of `text`; a call that `max_tokens` cut
    off is included as far as it was generated. `logprobs` and `inspection`, a `marith.Inspection`,
    are None unless they were requested.
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

    def without_texts(self, names: Mapping[str, str]) -> Completion:
        """The same for whoever may not read the terms; `names` has that of each term by its text.

        "…" stands in place of a text without a name.
        """
        stages = (replace(each, part=renamed(each.part, names)) for each in self.stats.stages)
        stats = replace(self.stats, stages=tuple(stages), terms=_renamed(self.stats.terms, names))
        logprobs = self.logprobs and tuple(
            replace(token, terms=_renamed(token.terms, names)) for token in self.logprobs
        )
        inspection = self.inspection and self.inspection.without_texts()
        return replace(self, stats=stats, logprobs=logprobs, inspection=inspection)

    def __repr__(self) -> str:
        calls = [f"calls {', '.join(call.name for call in self.calls)}"] * bool(self.calls)
        after = [*calls, self.finish_reason, _counted(len(self.tokens)), _time(self.stats.seconds)]
        return f"<Completion {_brief(self.text)}: {', '.join(after)}>"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Choice:
    """The likeliest of some texts, and the probability of each among them.

    `logprobs` are the log-probabilities that an answer begins with a text, each the sum over its
    tokens; `probabilities` are the same, so that they add up to 1.
    """

    text: str
    probabilities: Mapping[str, float]
    logprobs: Mapping[str, float]

    @classmethod
    def of(cls, logprobs: Mapping[str, float]) -> Choice:
        """The choice among texts of these log-probabilities. Raises RequestError if all are −∞."""
        best = max(logprobs, key=lambda text: logprobs[text])
        if logprobs[best] == -math.inf:
            raise RequestError("the formula gives no option a probability above zero")
        weights = {text: math.exp(value - logprobs[best]) for text, value in logprobs.items()}
        total = math.fsum(weights.values())
        return cls(best, {text: weight / total for text, weight in weights.items()}, logprobs)

    def __str__(self) -> str:
        return self.text


_SHOWN = 60  # letters of a text in a `repr`


def _renamed(terms: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """The same by names; an equal name has a number after it."""
    return dict(zip(distinct(renamed(text, names) for text in terms), terms.values(), strict=True))


def _brief(text: str) -> str:
    """A text in quotation marks; one that was shortened has "…" and its length behind them."""
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r}… ({len(text)} letters)"


def _counted(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens} tokens"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"  # 1e+03 is no time
