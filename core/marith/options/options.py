"""The options of a model, as plain data: checked when they are made, and loaded when used."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from marith.errors import Busy, RequestError
from marith.formula.text.files import as_text, terms_as_text
from marith.formula.text.trust import of_call
from marith.options import meaning
from marith.options.file import Personas, opened
from marith.options.option_checks import CHECKS, PLACED, check_call, check_fields, variable
from marith.request.limits import LOADED_BYTES
from marith.request.plan import Plan, read_speculation
from marith.request.prompt import Message, hides, to_prompt
from marith.request.request import Request, RequestOptions
from marith.request.sampling import Sampling
from marith.request.stop import read_stop

if TYPE_CHECKING:
    from marith.engine.engine import Engine
    from marith.engine.threads.deadline import Deadline
    from marith.engine.ticket import Ticket
    from marith.formula.tree.nodes import Formula

_DRAWN = tuple(field.name for field in fields(Sampling))


class Options(BaseModel):
    """The options of a model. Adapters inherit them; a call may give each but `file`.

    All are checked when they are made, before any model loads; an unknown option raises. Only that
    `faithful` has a `faithful_to` is checked at a call, which may give it. If they are not
    `trusted`, a call may set how an answer is drawn, and the text of its `formula` and `terms` may
    combine what the options define; if they are `frozen`, a call gives neither.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    model: str = Field(default_factory=lambda: variable("model") or "pocket")
    """A directory, a hub id, "pocket", or a formula of `file` by name; else MARITH_MODEL."""
    formula: str = Field(default_factory=lambda: variable("formula") or "M")
    """What to sample from, as formula text or a Formula; else MARITH_FORMULA."""
    terms: dict[str, str] = Field(default_factory=dict)
    """What the formula's names mean: system prompts, formula text, terms or tables of a file."""
    temperature: float = 1.0
    """Above 1 flatter, below 1 sharper; 0 takes the likeliest token."""
    top_p: float = 1.0
    """Draw from the fewest likeliest tokens whose probabilities reach this."""
    top_k: int | None = None
    """Draw from so many of the likeliest tokens."""
    min_p: float = 0.0
    """Draw from tokens at least this many times as likely as the likeliest."""
    repetition_penalty: float = 1.0
    """Multiplies log-probabilities of tokens that the answer already contains."""
    max_tokens: int = 256
    """The most tokens of an answer."""
    stop: list[str] = Field(default_factory=list)
    """Texts before which an answer ends; those of a call are added."""
    ban: list[str] = Field(default_factory=list)
    """Words that no answer contains, whole and in either case."""
    seed: int | None = None
    """The same seed gives the same text."""
    device: str | None = Field(default_factory=lambda: variable("device"), validate_default=True)
    """As for torch, "cpu" or "cuda"; else MARITH_DEVICE, or what the machine has."""
    dtype: str | None = Field(default_factory=lambda: variable("dtype"), validate_default=True)
    """As for torch, "float32" or "bfloat16"; else MARITH_DTYPE, or what suits the device."""
    max_lanes: int = 64
    """The most lanes of language models in flight: one for each term of each request."""
    max_queue: int = 4096
    """The most requests that wait for lanes; one more raises Busy."""
    cache_bytes: int = 2**30
    """How many bytes of keys and values are kept between requests, for each checkpoint."""
    loaded_bytes: int = LOADED_BYTES
    """How many bytes of further checkpoints, adapters and n-grams stay loaded while unused."""
    context_length: int | None = None
    """The most tokens that the model reads; by default the number in its checkpoint."""
    revision: str | None = None
    """A branch, tag or commit of a model on the hub."""
    speculation: Plan | Literal["auto"] | None = "auto"
    """How much to draft: "auto", a Plan (or its JSON or mapping), or None (or "none")."""
    timeout: float | None = None
    """Seconds from the call, loading included, after which DeadlineExceeded is raised."""
    max_retries: int = 2
    """How often a request is submitted again when the engine is busy."""
    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the terms' chat templates, such as `{"enable_thinking": False}`."""
    steer_tools: bool = True
    """False: the bare model fills the arguments of calls, the formula writes the rest."""
    faithful: float = 0.0
    """How much more an answer follows what was retrieved: the strength of `context_aware`."""
    faithful_to: str | None = Field(default=None, min_length=1)
    """A regular expression that matches what was retrieved, in the messages."""
    file: Personas | None = None
    """A persona file (TOML), read once, with values for options not given; else MARITH_FILE."""
    trusted: bool = True
    """False: the text of formula and terms in a call is untrusted."""
    frozen: bool = False
    """True: a call may give neither formula nor terms."""

    @model_validator(mode="before")
    @classmethod
    def _with_its_file(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        check_fields(data, cls)
        file = _opened(data.get("file", variable("file")))
        if file is None:
            return data
        model = data.get("model", None if "formula" in data else variable("model"))
        return file.apply(data, model, Options)

    @field_validator(*CHECKS, mode="before")
    @classmethod
    def _value_of_a_request(cls, value: Any, info: Any) -> Any:
        return CHECKS[info.field_name](info.field_name, value)

    @field_validator("formula", mode="before")
    @classmethod
    def _formula_as_text(cls, formula: Any) -> Any:
        return as_text(formula)

    @field_validator("terms", mode="before")
    @classmethod
    def _terms_as_text(cls, terms: Any) -> Any:
        return terms_as_text(terms) if isinstance(terms, Mapping) else terms

    @field_validator("speculation", mode="before")
    @classmethod
    def _plan_as_written(cls, speculation: Any) -> Any:
        return read_speculation(speculation)

    @model_validator(mode="after")
    def _formula_means_something(self) -> Self:
        meaning.require_meaning(*self._meaning, self.speculation)
        return self

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **options: Any) -> Self:
        """The options of a file with its formula `name`; other options may be given.

        Raises FormulaError for a file in which anything is wrong, and for an unknown name.
        """
        file = _opened(path)
        if file is None:
            raise RequestError(f"a file has a path, not {path!r}")
        if name is None:
            return cls(file=file, **options)
        file.require(name)
        return cls(file=file, model=name, **options)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of all options, without the fields that an adapter adds."""
        return tuple(Options.model_fields)

    @classmethod
    def check_call(cls, options: Mapping[str, Any], others: Sequence[str] = ()) -> None:
        """Raise RequestError for an option that a call does not have, neither here nor in `others`.

        A call does not have `file`.
        """
        check_call(options, [*cls.option_names(), *others], cls.__name__)

    @property
    def speaks_as(self) -> str:
        """The model's name in answers: that of a formula of the file, or of the model."""
        return (self.file and self.file.formula_name) or self.model

    @property
    def faithfully(self) -> Formula:
        """The formula for a prompt in which something was retrieved."""
        return meaning.faithfully(*self._meaning)

    def values(self) -> dict[str, Any]:
        """Every option with its value."""
        return {name: getattr(self, name) for name in self.option_names()}

    def chosen(self) -> dict[str, Any]:
        """Every option with its value as plain data, the content of `file` included."""
        plan = self.speculation
        plain = json.loads(plan.to_json()) if isinstance(plan, Plan) else plan
        file = None if self.file is None else asdict(self.file)
        return {**self.values(), "speculation": plain, "file": file}

    def over(self, options: Mapping[str, Any], stop: str | Iterable[str] | None = None) -> Options:
        """These options, overridden by those of one call; stop strings and terms are added.

        If `model` is a formula of the file, that formula's options replace those of the former
        formula; options that were given beside the file stay. Raises RequestError for an option
        that does not exist, and for `file`, which is read when options are made.
        """
        if not options and stop is None:
            return self
        self.check_call(options)
        call, strings = dict(options), read_stop(stop)
        base = self.values()
        if self.frozen or not self.trusted:
            call = of_call(call, self.terms, getattr(self.file, "formulas", ()), self.frozen)
        if self.file is not None and "model" in call:
            base = self.file.switched(base, call, Options)
            del call["model"]
        strings += read_stop(call.pop("stop", None))
        if isinstance(call.get("terms"), Mapping):
            call["terms"] = {**base["terms"], **call["terms"]}
        if strings:
            call["stop"] = list(dict.fromkeys([*base.get("stop", ()), *strings]))
        if base["file"] is not None:
            base["file"] = base["file"].with_kept(call, Options)
        return Options(**{**base, **call})

    def known_context(self, base: int | None = None) -> int | None:
        """The most tokens that all terms read, by their files; `base` is the model's, if known."""
        from marith.scoring.checkpoints.locate import context_length_of

        base = base or self.context_length or context_length_of(self.model, self.revision)
        others = map(context_length_of, meaning.other_models(self.faithfully, self._meaning[1]))
        return base and min([base, *filter(None, others)])

    def retrieves(self, prompt: str | Sequence[Message]) -> bool:
        """Whether `faithful_to` matches in a prompt, if `faithful` is set. Raises RequestError."""
        if not self.faithful:
            return False
        if self.faithful_to is None:
            raise RequestError(f"faithful is {self.faithful}, but faithful_to is not given")
        return hides(self.faithful_to, to_prompt(prompt).messages)

    def engine(self) -> Engine:
        """The process's engine for this model and placement; loads it at the first call."""
        from marith.engine.engine import Engine

        return Engine.shared(self.model, **{name: getattr(self, name) for name in PLACED})

    def submit(
        self,
        prompt: str | Sequence[Message],
        *,
        begun: float | None = None,
        **asked: Unpack[RequestOptions],
    ) -> Ticket:
        """Start a request on the engine. Blocks while weights load, or while the engine is busy.

        `asked` are other fields of the request, as for `request`. Raises Busy after `max_retries`,
        or if the timeout ends before the next one; other errors are those of `Engine.submit`.
        """
        begun = time.monotonic() if begun is None else begun  # loading counts too
        request, engine, retry = self.request(prompt, **asked), self.engine(), 0
        while True:
            try:
                return engine.submit(request, begun)
            except Busy:
                from marith.engine.retry import pause

                if retry == self.max_retries or not pause(retry, request, begun):
                    raise
                retry += 1

    def deadline(self, begun: float | None = None) -> Deadline:
        """The deadline of an answer that is requested now, or at `begun` (time.monotonic)."""
        from marith.engine.threads.deadline import Deadline

        return Deadline.of(self.timeout, begun)

    def request(self, prompt: str | Sequence[Message], **asked: Unpack[RequestOptions]) -> Request:
        """The request for a prompt; the fields in `asked` override these options."""
        tools = asked.get("tools")
        if tools is not None and not self.steer_tools:
            asked["tools"] = replace(tools, steer=False)
        from_options: RequestOptions = {
            "timeout": self.timeout,
            "template_options": self.chat_template_kwargs or None,
            "ban": meaning.ban(tuple(self.ban)),
        }
        return Request(
            prompt,
            self.faithfully if self.retrieves(prompt) else self.formula,
            self.terms,
            meaning.sampling(*(getattr(self, name) for name in _DRAWN)),
            meaning.stop(self.max_tokens, tuple(self.stop)),
            self.speculation,
            **(from_options | asked),
        )

    @property
    def _meaning(self) -> tuple[str, tuple[tuple[str, str], ...], float, str | None]:
        """The options that determine the formula."""
        return self.formula, tuple(self.terms.items()), self.faithful, self.faithful_to


def _opened(file: Any) -> Personas | None:
    return opened(file, Options, variable("model") or "pocket")
