"""Reads bodies: the fields of OpenAI, of other servers, and of marith."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import (
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from marith import Options
from marith.serving.wire.refusals import Refusal, wrong_value

_SECONDS = 30  # the maximum time to receive a body
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some editors write


Number = Annotated[StrictFloat, AllowInfNan(False)]  # accepts whole numbers too
Messages = Annotated[list[dict[str, Any]], Field(max_length=1_000)]
ToolList = Annotated[list[dict[str, Any]], Field(max_length=128)]
Plain = StrictStr | StrictBool | StrictInt | StrictFloat
# Fields that do not change the text.
HARMLESS = frozenset(
    (
        "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
        "prompt_cache_retention", "verbosity", "priority", "request_id",
    )
)  # fmt: skip
# Refused fields are accepted with these values, which change nothing.
_NEUTRAL: tuple[Any, ...] = (None, False, [], {}, "")
# Some fields have other values that change nothing.
_NEUTRAL_OF: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("best_of", "length_penalty", "n", "typical_p"), (None, 1)),
    "modalities": (*_NEUTRAL, ["text"]),
    "function_call": (*_NEUTRAL, "none", "auto"),
    **dict.fromkeys(("steer_reasoning", "steer_tools"), (None, True)),
    "guidance_scale": (None, 1),
}
MOST_LETTERS = 100_000  # characters of a grammar, and of all tools together
MOST_TOP = 20  # the maximum number of likeliest tokens at a position
# The names of the limit of reasoning here, in vLLM and in llama.cpp.
LIMITS_OF_REASONING = "max_reasoning_tokens", "thinking_token_budget", "thinking_budget_tokens"
_STOPS, _STOP_LETTERS = 64, 4_096
# This replaces a `top_p` of 0. The likeliest token has more, so only that token is kept.
_LEAST_MASS = 1e-9
_WRITE_A_FORMULA = "write a formula such as negative_prompt(M, rude) in the server's persona file"
# Fields that would change the text, and what to write instead.
REFUSED: Mapping[str, str] = {
    "functions": "write tools",
    "function_call": "write tool_choice",
    "audio": "answers are text only",
    "modalities": "answers are text only",
    "prediction": "leave it out",
    "web_search_options": "leave it out",
    "suffix": "a text can only be continued at its end",
    "best_of": "write n",
    "use_beam_search": "tokens are sampled",
    "length_penalty": "tokens are sampled",
    "prompt_logprobs": "write /v1/score, or echo and logprobs of /v1/completions",
    "guided_json": "write response_format",
    "guided_regex": "write grammar",
    "guided_choice": "write grammar",
    "guided_grammar": "write grammar",
    "structured_outputs": "write response_format or grammar",
    "logits_processors": "the server cannot run a client's code",
    "bad_words": "write marith.ban",
    "chat_template": "a template comes with the checkpoint",
    "typical_p": "write top_p, top_k or min_p",
    # Only text completions have these fields.
    **dict.fromkeys(("guidance_scale", "negative_prompt"), _WRITE_A_FORMULA),
    # Only bodies that have no such object refuse it.
    "marith": "write the fields of this route in the body itself",
}


def _require_term(term: Any) -> Any:
    is_formula = isinstance(term, dict) and [*term] == ["formula"]
    if isinstance(term["formula"] if is_formula else term, str):
        return term
    raise ValueError(f'a term must be a system prompt or {{"formula": "…"}}, not {str(term)[:80]}')


# A string is a system prompt.
WireTerm: TypeAlias = StrictStr | dict[Literal["formula"], StrictStr]
WireTerms: TypeAlias = dict[StrictStr, Annotated[WireTerm, BeforeValidator(_require_term)]]


class FormulaFields(BaseModel):
    """A client's own formula and terms. The server must allow formulas."""

    model_config = ConfigDict(extra="forbid")

    formula: StrictStr | None = None
    terms: WireTerms | None = None


class MarithFields(FormulaFields):
    """The fields that OpenAI's API does not have."""

    ban: list[Annotated[StrictStr, Field(min_length=1)]] | None = Field(
        default=None, max_length=256
    )
    faithful: Number | None = Field(default=None, ge=0, le=100)
    steer_reasoning: StrictBool | None = None
    steer_tools: StrictBool | None = None
    speculation: Literal["auto", "none"] | None = None
    composition: StrictBool = False
    inspect: StrictBool | StrictInt | None = None
    prefix: list[StrictInt] | None = None


class KnownFields(BaseModel):
    """The fields of a body, and a list of unknown fields."""

    model_config = ConfigDict(extra="allow")
    harmless: ClassVar[frozenset[str]] = HARMLESS

    model: StrictStr = Field(default="", max_length=256)

    @property
    def own_fields(self) -> Collection[str]:
        """The fields of the object `marith`, if bodies of this kind have this object."""
        own = type(self).model_fields.get("marith")
        return () if own is None else type(own.default).model_fields

    @field_validator("marith", mode="before", check_fields=False)
    @classmethod
    def _nothing_given(cls, value: Any) -> Any:
        return {} if value is None else value

    def unknown(self) -> list[str]:
        """Return the unknown fields. Raises Refusal for a field that would change the text."""
        unknown = []
        for name, value in (self.model_extra or {}).items():
            if name in self.own_fields and value not in _NEUTRAL_OF.get(name, _NEUTRAL):
                where = f'write it within marith: {{"marith": {{"{name}": …}}}}'
                sdk = f'in OpenAI\'s SDK extra_body={{"marith": {{"{name}": …}}}}'
                problem = f"{name!r} is a field of marith's own; {where}, {sdk}"
                raise Refusal(problem, code="unsupported_parameter", param=name)
            if name in REFUSED and value not in _NEUTRAL_OF.get(name, _NEUTRAL):
                problem = f"{name!r} is not supported; {REFUSED[name]}"
                raise Refusal(problem, code="unsupported_parameter", param=name)
            if name not in self.harmless and name not in REFUSED:
                unknown.append(name)
        return unknown


class SaltedFields(KnownFields):
    """Fields of a body whose prefixes are cached. A client may separate its texts by a salt."""

    cache_salt: StrictStr | None = Field(default=None, min_length=1, max_length=256)
    marith: FormulaFields = FormulaFields()

    def salt(self, key: str | None) -> str | None:
        """Return the cache salt, which separates the texts of each key and of each of its salts."""
        return key if self.cache_salt is None else json.dumps([key, self.cache_salt])


class DrawnFields(SaltedFields):
    """The fields for sampling and stopping, and marith's own fields."""

    temperature: Number | None = Field(default=None, ge=0, le=100)
    top_p: Number | None = Field(default=None, ge=0, le=1)
    top_k: StrictInt | None = Field(default=None, ge=-1)
    min_p: Number | None = Field(default=None, ge=0, le=1)
    stop: StrictStr | list[StrictStr] | None = None
    seed: StrictInt | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    presence_penalty: Number | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: Number | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: Number | None = Field(default=None, gt=0, le=100)
    logit_bias: dict[str, Number] | None = None
    min_tokens: StrictInt | None = Field(default=None, ge=0)
    max_reasoning_tokens: StrictInt | None = Field(default=None, ge=-1)
    stop_token_ids: list[StrictInt] | None = Field(default=None, max_length=64)
    ignore_eos: StrictBool | None = None
    grammar: StrictStr | None = Field(default=None, max_length=MOST_LETTERS)
    stream: StrictBool | None = None
    stream_options: dict[str, Any] | None = None
    marith: MarithFields = MarithFields()

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, value: str | list[str] | None) -> Any:
        stops = [value] if isinstance(value, str) else value or []
        if len(stops) > _STOPS or sum(map(len, stops)) > _STOP_LETTERS or "" in stops:
            limit = f"at most {_STOPS} strings of {_STOP_LETTERS:,} characters together"
            raise ValueError(f"stop must have {limit}, and no empty string")
        return value

    @model_validator(mode="before")
    @classmethod
    def _one_limit(cls, body: Any) -> Any:
        """Give the limit of reasoning its own name. Raises ValueError for two different limits."""
        if not isinstance(body, dict):
            return body
        given = {name: body[name] for name in LIMITS_OF_REASONING if body.get(name) is not None}
        if len({*map(repr, given.values())}) > 1:
            raise ValueError(f"{' and '.join(given)} are names of one limit; send one of them")
        rest = {name: value for name, value in body.items() if name not in LIMITS_OF_REASONING}
        return rest | ({"max_reasoning_tokens": next(iter(given.values()))} if given else {})

    def drawn(self) -> dict[str, Any]:
        """Return the fields for sampling and stopping as options, without missing fields.

        For other servers, a `top_k` of 0 or -1 means all tokens, a `top_p` of 0 the likeliest
        token, a `max_reasoning_tokens` of -1 no limit, and a `seed` of -1 no seed.
        """
        names = DrawnFields.model_fields.keys() & Options.model_fields.keys()
        names -= SaltedFields.model_fields.keys()
        values = self.model_dump(include=names, exclude_none=True)
        if values.get("top_k") in (0, -1):
            values["top_k"] = None
        for name in ("max_reasoning_tokens", "seed"):
            if values.get(name) == -1:
                values[name] = None
        if values.get("top_p") == 0:
            values["top_p"] = _LEAST_MASS
        return values


class AskedFields(DrawnFields):
    """The fields that chats and text completions share."""

    max_tokens: StrictInt | None = Field(default=None, ge=0)
    n: StrictInt | None = Field(default=None, ge=1, le=16)

    @field_validator("max_tokens", "max_completion_tokens", mode="before", check_fields=False)
    @classmethod
    def _no_most(cls, value: Any) -> Any:
        # Clients of llama.cpp write -1 for "no limit".
        return None if value == -1 else value

    @property
    def usage_in_stream(self) -> bool:
        """True if a stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.get("include_usage"))

    @property
    def most_tokens(self) -> int | None:
        """The maximum number of tokens of an answer, as the client wrote it, or None."""
        longest: int | None = getattr(self, "max_completion_tokens", None)
        return self.max_tokens if longest is None else longest


class ChatFields(AskedFields):
    """The body of a chat: `POST /v1/chat/completions`."""

    messages: Messages = Field(min_length=1)
    max_completion_tokens: StrictInt | None = Field(default=None, ge=1)
    logprobs: StrictBool | None = None
    top_logprobs: StrictInt | None = Field(default=None, ge=0, le=MOST_TOP)
    tools: ToolList | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[StrictStr, Plain] | None = Field(default=None, max_length=16)
    reasoning_effort: Annotated[StrictStr, Field(max_length=16)] | None = None
    continue_final_message: StrictBool | None = None


class TextFields(AskedFields):
    """The body of a text completion, with prompts as text or tokens: `POST /v1/completions`."""

    prompt: StrictStr | list[StrictInt] | list[StrictStr] | list[list[StrictInt]]
    echo: StrictBool | None = None
    logprobs: StrictInt | None = Field(default=None, ge=0, le=5)
    negative_prompt: StrictStr | None = None
    guidance_scale: Number | None = None

    @field_validator("logprobs", mode="before")
    @classmethod
    def _none_of_chats(cls, value: Any) -> Any:
        # Some clients send the `logprobs: false` of a chat.
        return None if value is False else value

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each as text or tokens."""
        prompt = self.prompt
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
            return [prompt]
        return [*prompt]


class TokenizeFields(KnownFields):
    """A text or messages to convert to tokens: `POST /tokenize`."""

    prompt: StrictStr | None = None
    messages: Messages | None = None
    add_special_tokens: StrictBool = True


class DetokenizeFields(KnownFields):
    """Tokens to convert to text: `POST /detokenize`."""

    tokens: list[StrictInt]


class ScoreFields(SaltedFields):
    """A continuation and the prompt or messages before it: `POST /v1/score`."""

    prompt: StrictStr | list[StrictInt] | None = None
    messages: Messages | None = None
    continuation: StrictStr | list[StrictInt]


def require_one_prompt(prompt: object, messages: object) -> None:
    """Raise Refusal unless a body has either a `prompt` or `messages`."""
    if (prompt is None) == (messages is None):
        found = "neither" if prompt is None else "both"
        sentence = "write either prompt (a text) or messages (a chat)"
        raise Refusal(f"{sentence}; this body has {found}", param="prompt")


class ExplainFields(KnownFields):
    """A formula to explain; the default is the model's own: `POST /v1/explain`."""

    formula: StrictStr | None = None
    terms: WireTerms | None = None


class MadeTextFields(DrawnFields):
    """A generated text, with the fields of the chat or the text completion that it answers."""

    harmless: ClassVar[frozenset[str]] = HARMLESS | {
        "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs",
    }  # fmt: skip

    messages: Messages | None = None
    prompt: StrictStr | list[StrictInt] | None = None
    tools: ToolList | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[StrictStr, Plain] | None = Field(default=None, max_length=16)

    @property
    def asked(self) -> AskedFields:
        """The fields of the chat or text completion. Raises Refusal unless there is exactly one."""
        require_one_prompt(self.prompt, self.messages)
        if self.stream:
            raise Refusal("this answer does not stream", param="stream")
        kind = ChatFields if self.messages is not None else TextFields
        names = kind.model_fields.keys() & type(self).model_fields.keys()
        fields = {name: getattr(self, name) for name in names}
        return read_fields(kind, {**fields, "marith": self.marith.model_dump()})


class InspectFields(MadeTextFields):
    """A continuation to inspect: `POST /v1/inspect`. The server samples no token."""

    continuation: StrictStr | list[StrictInt]
    top: StrictInt = Field(default=10, ge=1, le=MOST_TOP)
    leave_one_out: StrictBool = True


class WhatIfFields(MadeTextFields):
    """A number of a formula, and other values for it: `POST /v1/what_if`.

    The body has the text's tokens, and all fields with which the text was sampled. `ended` says
    that the text ended with an end token.
    """

    continuation: list[StrictInt]
    ended: StrictBool = False
    number: StrictInt = Field(ge=0)
    values: list[Number] = Field(min_length=1, max_length=21)


Fields = TypeVar("Fields", bound=KnownFields)


async def read_body(request: Request, limit: int) -> bytes:
    """Return a request's body of at most `limit` bytes, without reading the rest of a longer body.

    Raises Refusal if the body is too large or too slow, or if its headers do not say JSON.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(f"the content-type must be application/json, not {kind!r:.80}", 415)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refusal(
            f"the content-encoding {encoding!r:.80} is not supported; send the body as it is", 415
        )
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise Refusal(f"the body has more than {limit:,} bytes", 413, "body_too_large")
                parts.append(part)
    except TimeoutError:
        raise Refusal(f"the body took more than {_SECONDS} seconds", 408, "timeout") from None
    except ClientDisconnect:
        raise Refusal("the client has left", 499) from None
    return b"".join(parts)


def parsed(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body. Raises Refusal if the body is not a JSON object.

    NaN, half a surrogate pair, and more than 200 levels, pydantic's limit, are refused too.
    """
    try:
        value = from_json(body.removeprefix(_MARK), allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal('the body must be a JSON object, such as {"model": …}')
    return value


def read_fields(kind: type[Fields], body: Mapping[str, Any]) -> Fields:
    """Return the fields of a body. Raises Refusal, which names the first invalid field."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise wrong_value(error) from None
