"""The options of a model as fields, each with a check and a one-sentence description."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

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
    checked_terms,
    read_formula,
    read_terms,
    terms_as_data,
)
from marith.formula.tree.nodes import Formula
from marith.options import cached_objects
from marith.options.option_checks import (
    CHECKS,
    NO_DATA,
    by_name,
    check_fields,
    naming_variable,
    variable,
    with_engine,
)
from marith.options.persona_file import PersonaFile
from marith.options.persona_options import complete_options, open_file
from marith.request.limits import LOADED_BYTES
from marith.request.other_names import PLACEMENT
from marith.request.placement_names import Over
from marith.request.plan import Plan, read_speculation
from marith.request.request import RowFunction


class OptionFields(BaseModel):
    """The fields of `Options`. All are checked when options are made, before any model loads."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, use_attribute_docstrings=True)
    # By name: what to write when an option that only the calls of a class take is set on the class.
    _advice: ClassVar[Mapping[str, str]] = MappingProxyType({})

    model: str = Field(default_factory=lambda: variable("model") or "pocket")
    """A directory, GGUF file, hub id, "pocket", or formula of `file`. Environment: MARITH_MODEL."""
    formula: str = Field(default_factory=lambda: variable("formula") or "M")
    """The formula to sample from, as text or a Formula. Environment: MARITH_FORMULA."""
    terms: Mapping[str, TermData] = Field(default_factory=dict)
    """The meaning of names: system prompts, terms, or formulas as `{"formula": "…"}`."""
    temperature: float = 1.0
    """Above 1 flatter, below 1 sharper. 0 always takes the likeliest token."""
    top_p: float = 1.0
    """Sample from the fewest likeliest tokens whose total probability reaches this."""
    top_k: int | None = None
    """Sample from this number of likeliest tokens."""
    min_p: float = 0.0
    """Sample from tokens whose probability is at least this share of the largest probability."""
    repetition_penalty: float = 1.0
    """The factor for the log-probabilities of tokens that the prompt or the answer contains."""
    presence_penalty: float = 0.0
    """Subtract this from the log-probability of each token that the answer already contains."""
    frequency_penalty: float = 0.0
    """Subtract this from a token's log-probability for each of its occurrences in the answer."""
    logit_bias: dict[int, float] = Field(default_factory=dict)
    """Numbers to add to the log-probabilities of tokens, by token id."""
    max_tokens: int | None = 256
    """The most tokens of an answer, which are bytes with `over="bytes"`. None: all that fit."""
    stop: list[str] = Field(default_factory=list)
    """Stop strings: an answer ends before them. A call adds its own."""
    stop_token_ids: list[int] = Field(default_factory=list)
    """Token ids that end an answer, as the end-of-text tokens of the model do."""
    min_tokens: int = 0
    """Until an answer has this number of tokens, no token ends it."""
    ignore_eos: bool = False
    """True: the model's end-of-text tokens do not end an answer."""
    max_reasoning_tokens: int | None = None
    """After this number of tokens, reasoning ends and the answer begins. 0: no reasoning."""
    ban: list[str] = Field(default_factory=list)
    """Whole words, in upper or lower case, that an answer must not contain."""
    seed: int | None = None
    """The same seed gives the same text."""
    device: str | None = Field(default_factory=lambda: variable("device"), validate_default=True)
    """A torch device, such as "cpu" or "cuda"; "auto" for several. Environment: MARITH_DEVICE."""
    dtype: str | None = Field(default_factory=lambda: variable("dtype"), validate_default=True)
    """A torch dtype, such as "bfloat16". Default: by device. Environment: MARITH_DTYPE."""
    max_lanes: int = 256
    """The maximum number of running lanes. Each term of each request has a lane."""
    max_queue: int = 4096
    """The maximum number of requests that wait for lanes. One more raises Busy."""
    cache_bytes: int | None = None
    """Bytes for the KV cache of running requests. None: half of the free memory."""
    loaded_bytes: int = LOADED_BYTES
    """The most bytes of further checkpoints, adapters and n-grams that stay loaded while unused."""
    max_batched_tokens: int | None = None
    """The most tokens of prompts that a model reads at once. None: 8192; on a CPU 256."""
    context_length: int | None = None
    """The maximum number of tokens that the model reads. Default: from its checkpoint."""
    revision: str | None = None
    """A branch, tag or commit of a model on the hub."""
    backend: str | None = None
    """The library that runs a GGUF file: "llama.cpp", or None for transformers."""
    max_memory: dict[str, int | str] | None = None
    """With device "auto": the memory for each device, such as {"cuda:0": "20GB", "cpu": "60GB"}."""
    over: Over = "tokens"
    """The tokens of the engine: "tokens" of the model, or "bytes", which all models share."""
    speculation: Plan | Literal["auto"] | None = "auto"
    """How much to draft: "auto", a Plan (or its JSON or mapping), or None (or "none")."""
    timeout: float | None = None
    """Seconds after which a call raises DeadlineExceeded, loading included."""
    max_retries: int = 2
    """How often a request is submitted again if the engine is busy."""
    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the terms' chat templates, such as `{"enable_thinking": False}`."""
    steer_reasoning: bool = True
    """False: the bare model writes the reasoning, and the formula all other text."""
    steer_tools: bool = True
    """False: the bare model writes the arguments of tool calls, and the formula all other text."""
    faithful: float = 0.0
    """How much more closely an answer follows retrieved text. Start with 0.5; 0 is off."""
    faithful_to: str | None = Field(default=None, min_length=1)
    """A regular expression, in RE2's syntax, that matches retrieved text in the messages."""
    file: PersonaFile | None = None
    """A persona file (TOML) with values for options that are not set. Environment: MARITH_FILE."""
    trusted: bool = True
    """False: the text of formula and terms in a call is untrusted."""
    allowed: list[str] = Field(default_factory=list)
    """Your own functions that untrusted text may call, by their names in `marith.define`."""
    frozen: bool = False
    """True: a call must not set a formula or terms."""
    cache_salt: str | None = None
    """Only requests with the same salt, such as the id of a user, share cached prefixes."""
    inspect: bool | int = False
    """Explain each token: True, or the number of likeliest tokens to list; see `Inspection`."""
    constraints: tuple[RowFunction, ...] = ()
    """Functions that change composed log-probabilities before a token is sampled; see `Request`."""
    loaded_engine: Any = Field(default=None, alias="engine")
    """An `Engine` to use instead of `model` and its placement. It is never closed."""

    @model_validator(mode="before")
    @classmethod
    def _with_its_file(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        check_fields(data, cls, OptionFields.model_fields, cls._advice)
        options = by_name(data)
        if options.get("loaded_engine") is not None:
            return with_engine(options, {name: _default(name) for name in PLACEMENT})
        with naming_variable("file", "file" in options):
            file = opened_file(options.get("file", variable("file")))
        if file is not None:
            model = options.get("model", None if "formula" in options else variable("model"))
            options = complete_options(file, options, model, OptionFields)
        for name in ("device", "dtype"):
            if name not in options:
                with naming_variable(name, is_set=False):
                    CHECKS[name](name, variable(name))
        return options

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
        return terms_as_data(checked_terms(terms))

    @field_validator("speculation", mode="before")
    @classmethod
    def _plan_as_written(cls, speculation: Any) -> Any:
        return read_speculation(speculation)

    @model_validator(mode="after")
    def _formula_means_something(self) -> Self:
        check_allowed(self.allowed, self.trusted)
        # This raises RequestError if `min_tokens` and `max_tokens` contradict each other.
        cached_objects.stop(self.max_tokens, (), (), self.min_tokens, False, None)
        terms = tuple(read_terms(self.terms).items())
        # Terms are resolved first, so that an error in a term does not name the environment
        # variable MARITH_FORMULA.
        cached_objects.resolve_terms(terms)
        with naming_variable("formula", "formula" in self.model_fields_set):
            cached_objects.require_meaning(read_formula(self.formula), terms, 0.0, None, None)
        cached_objects.require_meaning(*self._meaning, self.speculation)
        return self

    @field_serializer("loaded_engine", "constraints")
    def _only_data(self, value: Any, info: FieldSerializationInfo) -> Any:
        if value:
            raise RequestError(NO_DATA[info.field_name])
        return value

    @property
    def names_of_terms(self) -> dict[str, str]:
        """The name of each term, and of `M`, by the text of its formula.

        In this text, each name is replaced by its term.
        """
        return {
            str(term): name for name, term in cached_objects.resolve_terms(self._meaning[1]).items()
        }

    @property
    def _meaning(self) -> tuple[Formula, cached_objects.Terms, float, str | None]:
        """The options that determine the formula."""
        terms = tuple(read_terms(self.terms).items())
        return read_formula(self.formula), terms, self.faithful, self.faithful_to


def _default(name: str) -> Any:
    """Return the default of an option, without the environment."""
    field = OptionFields.model_fields[name]
    return None if field.default_factory else field.default


def opened_file(file: Any) -> PersonaFile | None:
    """Return a persona file whose formulas are checked; see `open_file`."""
    return open_file(file, OptionFields)
