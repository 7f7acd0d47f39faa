"""A request: a prompt, the formula that answers it, and its options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, TypedDict, cast

from marith.errors import FormulaError, RequestError, names_checked, shown
from marith.formula.meaning.binding import BARE, Terms, resolve
from marith.formula.text.calls import check_allowed
from marith.formula.text.term_data import read_formula, read_terms
from marith.formula.text.trust import restricted
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import check_template_options
from marith.request.ban import Ban
from marith.request.checks import (
    by,
    filled,
    flag,
    hold,
    of_kind,
    optional,
    require_shallow,
    seconds,
    whole,
    whole_from,
)
from marith.request.forms.grammar import Grammar
from marith.request.forms.tools import Tools
from marith.request.plan import Plan, check_speculation
from marith.request.prompt import AnyPrompt
from marith.request.sampling import Sampling
from marith.request.stop import Stop


class RequestOptions(TypedDict, total=False):
    """The fields of a request besides prompt, formula, terms, sampling, stop and speculation."""

    timeout: float | None
    grammar: Grammar | None
    tools: Tools | None
    logprobs: int | None
    template_options: Mapping[str, Any] | None
    ban: Ban | None
    trusted: bool
    allowed: Collection[str]
    constraints: Sequence[RowFunction]
    cache_salt: str | None
    prefix: str | Sequence[int]


class InspectedOptions(RequestOptions, total=False):
    """The options of a request that may be inspected; calls of an engine take no `inspect`."""

    inspect: bool | int


Speculation: TypeAlias = "Plan | Literal['auto'] | None"
# Takes composed log-probabilities [positions, vocab] as a tensor, the tokens of the answer so far,
# and for each row the place that it is for, which follows text[:place]; returns changed rows.
RowFunction: TypeAlias = Callable[[Any, list[int], list[int]], Any]


IS_SAMPLING = of_kind(Sampling, "Sampling(temperature=0.7)")
_INSTEAD = {
    **{f.name: f"write sampling=Sampling({f.name}=…)" for f in fields(Sampling)},
    **dict.fromkeys(("max_tokens", "max_new_tokens"), "write stop=Stop(max_tokens=…)"),
    "messages": "write prompt=…",
}


def _formula(_: str, formula: Any) -> Any:
    if isinstance(formula, (str, Formula)):
        return formula
    is_terms = isinstance(formula, Mapping)
    advice = "; terms are given after it, or by name: terms={…}" if is_terms else ""
    raise FormulaError(f"a formula is a text or a Formula, not {shown(formula)}{advice}")


def row_functions(name: str, functions: Any) -> tuple[RowFunction, ...]:
    """Functions of composed rows, see `Request`."""
    if not isinstance(functions, (list, tuple)) or not all(map(callable, functions)):
        raise RequestError(f"{name} is a list of functions, not {shown(functions)}")
    return tuple(functions)


def prefix_of(name: str, prefix: Any) -> str | tuple[int, ...]:
    """The beginning of an answer: a text, or tokens by their numbers."""
    if isinstance(prefix, str):
        return prefix
    if not isinstance(prefix, (list, tuple)):
        raise RequestError(f"{name} is a text or a list of tokens, not {shown(prefix)}")
    return tuple(whole(f"a token of {name}", token, 0) for token in prefix)


def inspected(name: str, value: Any) -> bool | int:
    """Whether an answer is inspected, or how many of the likeliest tokens at each position."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, int) or value < 1:
        likeliest = "how many of the likeliest tokens to show, from 1"
        raise RequestError(f"{name} is True, False or {likeliest}, not {shown(value)}")
    return value


def template_options(name: str, options: Any) -> Mapping[str, Any]:
    """Options of a chat template: a mapping from names to data without too many levels or parts."""
    if not isinstance(options, Mapping):
        raise RequestError(f"{name} is a mapping, not {shown(options)}")
    require_shallow(options, name)
    for key in options:
        if not isinstance(key, str):
            raise RequestError(f"a template option has a name, not {shown(key)}")
    try:
        check_template_options(options)
    except FormulaError as error:
        raise RequestError(error.problem) from None
    return options


@names_checked(instead=_INSTEAD)
@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, the formula that answers it, and how its tokens are drawn and stopped.

    Texts are read when the request is made: `formula` is a `Formula` from then on, and `terms` maps
    names to `Formula`s. A text in `terms` is a system prompt, and `{"formula": text}` a formula.

    `grammar` defines what the answer may be, `ban` what it must not contain, `tools` what it may
    call; with `logprobs` the answer has the log-probability of each token, and of so many of the
    likeliest in its place; `template_options` are those of the terms' chat templates. A request
    that is not finished `timeout` seconds after it was made is given up, and raises
    DeadlineExceeded. Unless it is `trusted`, the text in `formula` and `terms` is untrusted: it may
    call a function that `marith.define` or a package named only if `allowed` lists the name.

    `constraints` are functions `f(rows, text, places)` that change the composed log-probabilities
    [positions, vocab], in order, before a token is drawn; row i is for the token after
    text[:places[i]]. What they return is normalised, and -inf forbids a token. A row must depend
    only on itself and the tokens before its place: several rows may be of drafts. They run on the
    engine's thread.

    The answer goes on from `prefix`, a text or tokens, and does not repeat it: what bounds an
    answer (a grammar, tools, bans, stop strings, penalties) counts it in, but `max_tokens` and
    `min_tokens` do not, and numbers are drawn by place. So the text of a seed, cut after any token
    and gone on from, is the same text, but for a ban that has taken tokens back.

    With `inspect` the completion and the last chunk say why each token is there: see `Inspection`.
    True asks for 10 likeliest tokens at each position, a number for so many. The tokens are read
    once more when the text has ended, by the formula and the bare model, and no stats count that.

    A `prompt` that is a text is one message of the user, which each term reads through its chat
    template; a term with `template="plain"` reads the text as it stands. A list of ints is tokens
    as they stand, which `Engine.encode(text, start=True)` makes of a text: no template is applied,
    and a term's system prompt stands before them as plain text; the token from which a text starts
    is not read after it. Over HTTP a `prompt` is text as it stands, and `messages` are a chat.

    Requests share what was read of their texts only if they have the same `cache_salt`, or none
    (as in vLLM): keys, values, states, and a classifier's tokens. With a salt for each user,
    neither `cached` nor the time to the first token says how another user's texts begin. The salt
    does not keep apart what is kept by formula (its system prompts are in it), grammar, tools,
    checkpoint or adapter; the measured times and the share of accepted drafts, which only decide
    how much is drafted; and the load.
    """

    prompt: AnyPrompt
    formula: str | Formula = field(default=BARE, metadata=by(_formula))
    terms: Terms | None = None
    sampling: Sampling = field(default=Sampling(), metadata=by(IS_SAMPLING))
    stop: Stop = field(default=Stop(), metadata=by(of_kind(Stop, "Stop(max_tokens=40)")))
    speculation: Speculation = field(default="auto", metadata=by(check_speculation))
    timeout: float | None = field(default=None, metadata=by(seconds))
    grammar: Grammar | None = field(
        default=None, metadata=by(optional(of_kind(Grammar, "Grammar.regex('yes|no')")))
    )
    tools: Tools | None = field(default=None, metadata=by(optional(of_kind(Tools, "Tools([…])"))))
    logprobs: int | None = field(default=None, metadata=by(optional(whole_from(0))))
    template_options: Mapping[str, Any] | None = field(
        default=None, metadata=by(optional(template_options), "chat_template_kwargs")
    )
    ban: Ban | None = field(default=None, metadata=by(optional(of_kind(Ban, "Ban(['word'])"))))
    trusted: bool = field(default=True, metadata=by(flag))
    allowed: Collection[str] = ()
    constraints: Sequence[RowFunction] = field(default=(), metadata=by(row_functions))
    cache_salt: str | None = field(default=None, metadata=by(optional(filled)))
    prefix: str | Sequence[int] = field(default=(), metadata=by(prefix_of))
    inspect: bool | int = field(default=False, metadata=by(inspected))

    def __post_init__(self) -> None:
        hold(self)
        if self.grammar is not None and self.grammar.tool and self.tools is None:
            object.__setattr__(self, "tools", Tools.of_schema(self.grammar))
            object.__setattr__(self, "grammar", None)
        if not self.steered and isinstance(self.speculation, Plan):
            allowed = "None or 'auto' for speculation"
            raise RequestError(f"tools without steer take {allowed}, not {self.speculation}")
        if self.stop.ignore_eos and (self.grammar is not None or self.tools is not None):
            what = "a grammar" if self.tools is None else "tools"
            raise RequestError(f"ignore_eos lets a text go on for ever, and {what} lets it end")
        if self.allowed != ():
            check_allowed(self.allowed, self.trusted)
        formula, terms = (
            (read_formula(self.formula), read_terms(self.terms))
            if self.trusted
            else restricted(self.formula, self.terms, self.allowed)
        )
        object.__setattr__(self, "formula", formula)
        object.__setattr__(self, "terms", terms)

    @property
    def formulas(self) -> tuple[Formula, Mapping[str, Formula]]:
        """Return the formula and the terms, which were read when the request was made."""
        return cast("Formula", self.formula), cast("Mapping[str, Formula]", self.terms)

    @property
    def meanings(self) -> dict[str, Formula]:
        """Every name that the formula uses, and `M`, with its bound formula."""
        formula, terms = self.formulas
        return resolve(terms, formula)

    @property
    def answers_in_json(self) -> bool:
        """Whether the whole text is JSON that follows a schema, or the arguments of a call."""
        by_schema = self.grammar is not None and self.grammar.kind == "json_schema"
        return by_schema or (self.tools is not None and self.tools.as_text)

    @property
    def steered(self) -> bool:
        """Whether every token is drawn from the formula, those inside calls too."""
        return self.tools is None or self.tools.steer
