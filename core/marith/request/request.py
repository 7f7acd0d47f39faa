"""What a caller asks for: a prompt, the formula that answers it, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from marith.errors import FormulaError, RequestError, shown
from marith.formula.binding import BARE, Terms
from marith.formula.nodes import Formula
from marith.formula.scalars import whole
from marith.formula.terms import check_template_options
from marith.formula.trust import restricted
from marith.request.ban import Ban
from marith.request.checks import check_timeout, require_shallow
from marith.request.grammar import Grammar
from marith.request.plan import Plan
from marith.request.sampling import Sampling
from marith.request.stop import Stop
from marith.request.tools import Tools


class RequestOptions(TypedDict, total=False):
    """What a request may hold beside its prompt, formula, terms, sampling, stop and speculation."""

    timeout: float | None
    grammar: Grammar | None
    tools: Tools | None
    logprobs: int | None
    template_options: Mapping[str, Any] | None
    ban: Ban | None
    trusted: bool


Message: TypeAlias = "Mapping[str, Any]"
Speculation: TypeAlias = "Plan | Literal['auto'] | None"


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, the formula that answers it, and how its tokens are drawn and stopped.

    `grammar` says what the answer may be, `ban` what it may not say, `tools` what it may call;
    `logprobs` asks for the log-probability of each token, and of so many of the likeliest in its
    place; `template_options` are those of the terms' chat templates. `timeout` seconds after it is
    asked, an unfinished request is given up and its caller gets DeadlineExceeded. Unless it is
    `trusted`, the text in `formula` and `terms` is read as that of others.
    """

    prompt: str | Sequence[Message]
    formula: str | Formula = BARE
    terms: Terms | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: Stop = field(default_factory=Stop)
    speculation: Speculation = "auto"
    timeout: float | None = None
    grammar: Grammar | None = None
    tools: Tools | None = None
    logprobs: int | None = None
    template_options: Mapping[str, Any] | None = None
    ban: Ban | None = None
    trusted: bool = True

    def __post_init__(self) -> None:
        needed = {"sampling": Sampling, "stop": Stop}
        kinds = {**needed, "grammar": Grammar, "tools": Tools, "ban": Ban}
        for name, kind in kinds.items():
            value: Any = getattr(self, name)
            may_lack = name not in needed and value is None
            if not (may_lack or isinstance(value, kind)):
                raise RequestError(f"{name} is a {kind.__name__}, not {shown(value)}")
        options = self.template_options
        if self.logprobs is not None:
            object.__setattr__(self, "logprobs", whole("logprobs", self.logprobs, 0))
        if options is not None and not isinstance(options, Mapping):
            raise RequestError(f"template_options is a mapping, not {shown(options)}")
        require_shallow(options, "template_options")
        for name in options or ():
            if not isinstance(name, str):
                raise RequestError(f"a template option is called by a name, not {shown(name)}")
        try:
            check_template_options(options or ())
        except FormulaError as error:
            raise RequestError(error.problem) from None
        if not self.steered and isinstance(self.speculation, Plan):
            asked = "None or 'auto' for speculation"
            raise RequestError(f"tools without steer take {asked}, not {self.speculation}")
        if not (self.speculation in (None, "auto") or isinstance(self.speculation, Plan)):
            given = shown(self.speculation)
            raise RequestError(f"speculation is None, 'auto' or a Plan, not {given}")
        object.__setattr__(self, "timeout", check_timeout(self.timeout))
        if not isinstance(self.trusted, bool):
            raise RequestError(f"trusted is True or False, not {shown(self.trusted)}")
        if not self.trusted:
            formula, terms = restricted(self.formula, self.terms)
            object.__setattr__(self, "formula", formula)
            object.__setattr__(self, "terms", terms)

    @property
    def steered(self) -> bool:
        """Whether the formula speaks everywhere, inside calls too."""
        return self.tools is None or self.tools.steer
