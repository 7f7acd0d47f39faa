"""A request: a prompt, the formula that answers it, and its options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict, cast

from marith.errors import FormulaError, RequestError, names_checked, shown
from marith.formula.meaning.binding import BARE, Terms, resolve
from marith.formula.text.calls import check_allowed
from marith.formula.text.term_data import read_formula, read_terms
from marith.formula.text.trust import restricted
from marith.formula.tree.factors import Varying
from marith.formula.tree.nodes import Formula
from marith.formula.tree.signals import calling, reasoning
from marith.formula.tree.terms import check_template_options
from marith.request.ban import Ban
from marith.request.checks import (
    check_fields,
    checked_by,
    filled,
    flag,
    of_kind,
    optional,
    require_shallow,
    seconds,
    whole,
    whole_from,
)
from marith.request.forms.grammar import Grammar
from marith.request.forms.tools import Tools
from marith.request.other_names import AT_REQUESTS
from marith.request.plan import Plan, check_speculation
from marith.request.prompt import AnyPrompt
from marith.request.sampling import Sampling
from marith.request.stop import Stop


class RequestOptions(TypedDict, total=False):
    """The fields of a request except prompt, formula, terms, sampling, stop and speculation."""

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
    steer_reasoning: bool


class InspectedOptions(RequestOptions, total=False):
    """The options of a request, and `inspect`, which the calls of an engine do not take."""

    inspect: bool | int


Speculation: TypeAlias = "Plan | Literal['auto'] | None"
# f(rows, text, places) gets a tensor of composed log-probabilities [positions, vocab], the tokens
# of the answer so far, and a place for each row: row i is for the token after text[:places[i]]. It
# returns the changed rows.
RowFunction: TypeAlias = Callable[[Any, list[int], list[int]], Any]


IS_SAMPLING = of_kind(Sampling, "Sampling(temperature=0.7)")


def _formula(_: str, formula: Any) -> Any:
    if isinstance(formula, (str, Formula)):
        return formula
    is_terms = isinstance(formula, Mapping)
    advice = "; write the terms after the formula, or by name: terms={…}" if is_terms else ""
    raise FormulaError(f"a formula is a text or a Formula, not {shown(formula)}{advice}")


def row_functions(name: str, functions: Any) -> tuple[RowFunction, ...]:
    """Check that a value is a list of functions that change composed rows; see `Request`."""
    if not isinstance(functions, (list, tuple)) or not all(map(callable, functions)):
        raise RequestError(f"{name} must be a list of functions, not {shown(functions)}")
    return tuple(functions)


def prefix_of(name: str, prefix: Any) -> str | tuple[int, ...]:
    """Check that a value is the beginning of an answer: a text, or token ids."""
    if isinstance(prefix, str):
        return prefix
    if not isinstance(prefix, (list, tuple)):
        raise RequestError(f"{name} must be a text or a list of tokens, not {shown(prefix)}")
    return tuple(whole(f"a token of {name}", token, 0) for token in prefix)


def inspected(name: str, value: Any) -> bool | int:
    """Check that a value is True, False, or the number of likeliest tokens to list."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, int) or value < 1:
        likeliest = "the number of likeliest tokens to show (1 or more)"
        raise RequestError(f"{name} must be True, False, or {likeliest}, not {shown(value)}")
    return value


def template_options(name: str, options: Any) -> Mapping[str, Any]:
    """Check the options of a chat template: a mapping from names to data of bounded size."""
    if not isinstance(options, Mapping):
        raise RequestError(f"{name} must be a mapping, not {shown(options)}")
    require_shallow(options, name)
    for key in options:
        if not isinstance(key, str):
            raise RequestError(f"the name of a template option must be a text, not {shown(key)}")
    try:
        check_template_options(options)
    except FormulaError as error:
        raise RequestError(error.problem) from None
    return options


@names_checked(AT_REQUESTS)
@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, the formula that answers it, and the options of the answer.

    - `prompt`: a text is one message of the user, which each term reads through its chat template;
      a term with `template="plain"` reads it unchanged. A list of ints is token ids, as
      `Engine.encode(text, start=True)` returns them. No template applies to token ids. A system
      prompt is read as plain text, between the start token and the other token ids.
    - `formula`, `terms`: read when the request is made. In `terms`, a text is a system prompt, and
      `{"formula": text}` a formula.
    - `grammar`: the texts that the answer may be; `ban`: texts that it must not contain; `tools`:
      the functions that it may call.
    - `timeout`: seconds until the request raises DeadlineExceeded, counted from when it was made.
    - `logprobs`: a number n. The log-probability of each token is listed, and those of the n
      likeliest tokens at its position.
    - `template_options`: options of the terms' chat templates.
    - `trusted`: if False, the texts of `formula` and `terms` are limited, as `marith.parse` limits
      untrusted text: they may call a function that `marith.define` or a package has added only if
      `allowed` contains its name.
    - `constraints`: functions `f(rows, text, places)`, called in order. `rows` [positions, vocab]
      are the composed log-probabilities, as the earlier functions have changed them. Row i is for
      the token after text[:places[i]]. Each function returns the changed rows. The last result is
      normalised, and -inf forbids a token. A row may depend only on itself and on the tokens
      before its place, because the other rows may belong to drafts. The functions run on the
      engine's thread.
    - `prefix`: a text or token ids that the answer continues and does not repeat. Grammar, tools,
      bans, stop strings and penalties treat it as part of the answer; `max_tokens` and `min_tokens`
      do not. With a seed, an answer that was cut after a token and then continued by `prefix`
      equals the uncut answer, unless a ban rolled tokens back.
    - `steer_reasoning`: if False, the bare model, not the formula, samples the reasoning. The
      formula still samples the mark that begins it.
    - `inspect`: add a `marith.Inspection` to the completion and the last chunk. A number sets how
      many likeliest tokens each position lists; True means 10. The finished text is read once
      more, which `Stats` does not count.
    - `cache_salt`: requests share cached keys, values, states and classifier tokens only if they
      have the same salt, or none, as in vLLM. With a salt for each user, neither `Stats.cached` nor
      the time to the first token reveals how another user's text begins. All requests share the
      caches of formulas (with their system prompts), grammars, tools, checkpoints and adapters,
      whatever their salt. They also share the engine's measurements (times, and the shares of
      drafts that were accepted), and each request slows the others down.
    """

    prompt: AnyPrompt
    formula: str | Formula = field(default=BARE, metadata=checked_by(_formula))
    terms: Terms | None = None
    sampling: Sampling = field(default=Sampling(), metadata=checked_by(IS_SAMPLING))
    stop: Stop = field(default=Stop(), metadata=checked_by(of_kind(Stop, "Stop(max_tokens=40)")))
    speculation: Speculation = field(default="auto", metadata=checked_by(check_speculation))
    timeout: float | None = field(default=None, metadata=checked_by(seconds, untrusted=True))
    grammar: Grammar | None = field(
        default=None, metadata=checked_by(optional(of_kind(Grammar, "Grammar.regex('yes|no')")))
    )
    tools: Tools | None = field(
        default=None, metadata=checked_by(optional(of_kind(Tools, "Tools([…])")))
    )
    logprobs: int | None = field(default=None, metadata=checked_by(optional(whole_from(0))))
    template_options: Mapping[str, Any] | None = field(
        default=None, metadata=checked_by(optional(template_options), "chat_template_kwargs")
    )
    ban: Ban | None = field(
        default=None, metadata=checked_by(optional(of_kind(Ban, "Ban(['word'])")))
    )
    trusted: bool = field(default=True, metadata=checked_by(flag))
    allowed: Collection[str] = ()
    constraints: Sequence[RowFunction] = field(default=(), metadata=checked_by(row_functions))
    cache_salt: str | None = field(default=None, metadata=checked_by(optional(filled)))
    prefix: str | Sequence[int] = field(default=(), metadata=checked_by(prefix_of))
    steer_reasoning: bool = field(default=True, metadata=checked_by(flag, untrusted=True))
    inspect: bool | int = field(default=False, metadata=checked_by(inspected))

    def __post_init__(self) -> None:
        check_fields(self)
        # If the grammar has a tool that shows its schema to the model, this tool replaces the
        # grammar, and the arguments of its call are the answer.
        if self.grammar is not None and self.grammar.tool and self.tools is None:
            object.__setattr__(self, "tools", Tools.of_schema(self.grammar))
            object.__setattr__(self, "grammar", None)
        if self.stop.ignore_eos and (self.grammar is not None or self.tools is not None):
            what = "a grammar" if self.tools is None else "tools"
            raise RequestError(f"ignore_eos cannot be combined with {what}")
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
        """The formula and the terms, as they were read when the request was made."""
        return cast("Formula", self.formula), cast("Mapping[str, Formula]", self.terms)

    @property
    def meanings(self) -> dict[str, Formula]:
        """A mapping from `M`, and from each name in use, to its formula.

        In these formulas, each name is replaced by the term that it stands for.
        """
        formula, terms = self.formulas
        return resolve(terms, formula)

    @property
    def answers_in_json(self) -> bool:
        """True if the whole text is JSON of a schema, or the arguments of a call."""
        by_schema = self.grammar is not None and self.grammar.kind == "json_schema"
        return by_schema or (self.tools is not None and self.tools.as_text)

    @property
    def unsteered(self) -> tuple[Varying, ...]:
        """The factors that are above zero where `M`, and not the formula, gives the tokens."""
        calls = () if self.tools is None or self.tools.steer else (calling(),)
        return calls if self.steer_reasoning else (*calls, reasoning())
