"""The options of a model as fields: each with a sentence, and checked when it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    JsonValue,
    field_serializer,
    field_validator,
    model_validator,
)

from marith.errors import RequestError
from marith.formula.text.calls import check_allowed
from marith.formula.text.term_data import (
    TermData,
    as_text,
    read_formula,
    read_terms,
    terms_as_data,
)
from marith.formula.tree.nodes import Formula
from marith.options import meaning
from marith.options.file import Personas, opened
from marith.options.option_checks import (
    CHECKS,
    NO_DATA,
    PLACEMENT,
    by_name,
    check_fields,
    variable,
    with_engine,
)
from marith.request.limits import LOADED_BYTES
from marith.request.plan import Plan, read_speculation
from marith.request.request import RowFunction


class OptionFields(BaseModel):
    """The fields of `Options`, all checked when they are made, before any model loads."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, use_attribute_docstrings=True)

    model: str = Field(default_factory=lambda: variable("model") or "pocket")
    """A directory, GGUF file, hub id or "pocket", or a formula of `file`; else MARITH_MODEL."""
    formula: str = Field(default_factory=lambda: variable("formula") or "M")
    """What to sample from, as formula text or a Formula; else MARITH_FORMULA."""
    terms: Mapping[str, TermData] = Field(default_factory=dict)
    """What names of the formula mean: system prompts, terms, formulas by `{"formula": "…"}`."""
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
    presence_penalty: float = 0.0
    """Is taken from the log-probability of each token that the answer already contains."""
    frequency_penalty: float = 0.0
    """The same, for each time that the answer contains it."""
    logit_bias: dict[int, float] = Field(default_factory=dict)
    """What is added to the log-probabilities of tokens, by their numbers."""
    max_tokens: int | None = 256
    """The most tokens of an answer; None for as many as the context holds."""
    stop: list[str] = Field(default_factory=list)
    """Texts before which an answer ends; those of a call are added."""
    stop_token_ids: list[int] = Field(default_factory=list)
    """Tokens that end an answer, beside those of the model's vocabulary."""
    min_tokens: int = 0
    """No answer ends by a token before it has so many."""
    ignore_eos: bool = False
    """True: the tokens that end a text in the model's vocabulary end no answer."""
    ban: list[str] = Field(default_factory=list)
    """Words that no answer contains, whole and in either case."""
    seed: int | None = None
    """The same seed gives the same text."""
    device: str | None = Field(default_factory=lambda: variable("device"), validate_default=True)
    """As for torch, "cpu" or "cuda"; "auto" for several; else MARITH_DEVICE."""
    dtype: str | None = Field(default_factory=lambda: variable("dtype"), validate_default=True)
    """As for torch, "float32" or "bfloat16"; else MARITH_DTYPE, or what suits the device."""
    max_lanes: int = 256
    """The most lanes of language models in flight: one for each term of each request."""
    max_queue: int = 4096
    """The most requests that wait for lanes; one more raises Busy."""
    cache_bytes: int | None = None
    """How many bytes of keys and values requests take at once, or None for half of what is free."""
    loaded_bytes: int = LOADED_BYTES
    """How many bytes of further checkpoints, adapters and n-grams stay loaded while unused."""
    context_length: int | None = None
    """The most tokens that the model reads; by default the number in its checkpoint."""
    revision: str | None = None
    """A branch, tag or commit of a model on the hub."""
    backend: str | None = None
    """Who computes a GGUF file: "llama.cpp", or None for transformers."""
    max_memory: dict[str, int | str] | None = None
    """With the device "auto": what each may take, such as {"cuda:0": "20GB", "cpu": "60GB"}."""
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
    """How much more an answer follows what was retrieved: begin with 0.25, and go to 0.5."""
    faithful_to: str | None = Field(default=None, min_length=1)
    """A regular expression, in RE2's syntax, of what was retrieved, in the messages."""
    file: Personas | None = None
    """A persona file (TOML), read once, with values for options not given; else MARITH_FILE."""
    trusted: bool = True
    """False: the text of formula and terms in a call is untrusted."""
    allowed: list[str] = Field(default_factory=list)
    """Functions of your own that untrusted text may call, by the names of `marith.define`."""
    frozen: bool = False
    """True: a call may give neither formula nor terms."""
    cache_salt: str | None = None
    """What was read of a text serves only texts of the same salt, such as a user's."""
    inspect: bool | int = False
    """True, or how many of the likeliest tokens: why each token is there, see `Inspection`."""
    constraints: tuple[RowFunction, ...] = ()
    """Functions that change composed log-probabilities before a token is drawn, see `Request`."""
    loaded_engine: Any = Field(default=None, alias="engine")
    """An `Engine` to use in place of `model` and where it is placed; it is never closed."""

    @model_validator(mode="before")
    @classmethod
    def _with_its_file(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        check_fields(data, cls)
        options = by_name(data)
        if options.get("loaded_engine") is not None:
            return with_engine(options, {name: _default(name) for name in PLACEMENT})
        file = opened_file(options.get("file", variable("file")))
        if file is None:
            return options
        model = options.get("model", None if "formula" in options else variable("model"))
        return file.apply(options, model, OptionFields)

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
    def _terms_as_data(cls, terms: Any) -> Any:
        return terms_as_data(terms) if isinstance(terms, Mapping) else terms

    @field_validator("speculation", mode="before")
    @classmethod
    def _plan_as_written(cls, speculation: Any) -> Any:
        return read_speculation(speculation)

    @model_validator(mode="after")
    def _formula_means_something(self) -> Self:
        check_allowed(self.allowed, self.trusted)
        meaning.stop(self.max_tokens, (), (), self.min_tokens, False)  # they may contradict
        meaning.require_meaning(*self._meaning, self.speculation)
        return self

    @field_serializer("loaded_engine", "constraints")
    def _only_data(self, value: Any, info: FieldSerializationInfo) -> Any:
        if value:
            raise RequestError(NO_DATA[info.field_name])
        return value

    @property
    def names_of_terms(self) -> dict[str, str]:
        """The name of each term, and of `M`, by the text that a bound formula prints for it."""
        return {str(term): name for name, term in meaning.resolved(self._meaning[1]).items()}

    @property
    def _meaning(self) -> tuple[Formula, meaning.Terms, float, str | None]:
        """The options that determine the formula."""
        terms = tuple(read_terms(self.terms).items())
        return read_formula(self.formula), terms, self.faithful, self.faithful_to


def _default(name: str) -> Any:
    """The default of an option, whatever the environment has."""
    field = OptionFields.model_fields[name]
    return None if field.default_factory else field.default


def opened_file(file: Any) -> Personas | None:
    """The personas of a persona file, whose formulas are checked; see `opened`."""
    return opened(file, OptionFields)
