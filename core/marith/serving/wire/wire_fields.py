"""What clients send: bodies of OpenAI's fields, of those of other servers, and of marith's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
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
)
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from marith import Options
from marith.serving.wire.refusals import Refusal, wrong_value

_SECONDS = 30  # that a body may take to come
_MARK = b"\xef\xbb\xbf"  # which some editors begin a file with


Number = Annotated[StrictFloat, AllowInfNan(False)]  # takes whole numbers too
Messages = Annotated[list[dict[str, Any]], Field(max_length=1_000)]
ToolList = Annotated[list[dict[str, Any]], Field(max_length=128)]
Plain = StrictStr | StrictBool | StrictInt | StrictFloat
# Fields that change no text.
HARMLESS = frozenset(
    (
        "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
        "prompt_cache_retention", "verbosity", "priority", "request_id",
    )
)  # fmt: skip
# Values that change nothing, where they are others than these.
_NEUTRAL: tuple[Any, ...] = (None, False, [], {}, "")
_NEUTRAL_OF: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("best_of", "length_penalty", "n", "typical_p"), (None, 1)),
    "modalities": (*_NEUTRAL, ["text"]),
    "function_call": (*_NEUTRAL, "none", "auto"),
}
MOST_LETTERS = 100_000  # of a grammar, and of all tools
MOST_TOP = 20  # likeliest tokens at a position
_STOPS, _STOP_LETTERS = 64, 4_096
_LEAST_MASS = 1e-9  # one token has more, so the fewest tokens that reach it are one
# Fields that would change the text, and what to write instead.
REFUSED: Mapping[str, str] = {
    "functions": "write tools",
    "function_call": "write tool_choice",
    "audio": "answers are text",
    "modalities": "answers are text",
    "prediction": "there is none here",
    "web_search_options": "there is none here",
    "suffix": "a text is continued at its end",
    "best_of": "write n",
    "use_beam_search": "tokens are drawn",
    "length_penalty": "tokens are drawn",
    "prompt_logprobs": "write /v1/score, or echo and logprobs of /v1/completions",
    "guided_json": "write response_format",
    "guided_regex": "write grammar",
    "guided_choice": "write grammar",
    "guided_grammar": "write grammar",
    "structured_outputs": "write response_format or grammar",
    "logits_processors": "there are none over the network",
    "bad_words": "write marith.ban",
    "chat_template": "a template comes with the checkpoint",
    "typical_p": "write top_p, top_k or min_p",
}


def _require_term(term: Any) -> Any:
    is_formula = isinstance(term, dict) and [*term] == ["formula"]
    if isinstance(term["formula"] if is_formula else term, str):
        return term
    raise ValueError(f'a term is a system prompt or {{"formula": "…"}}, not {str(term)[:80]}')


# A term that is a text is a system prompt.
WireTerm: TypeAlias = StrictStr | dict[Literal["formula"], StrictStr]
WireTerms: TypeAlias = dict[StrictStr, Annotated[WireTerm, BeforeValidator(_require_term)]]


class FormulaFields(BaseModel):
    """A formula of the client's own, which needs a server that allows formulas."""

    model_config = ConfigDict(extra="forbid")

    formula: StrictStr | None = None
    terms: WireTerms | None = None


class MarithFields(FormulaFields):
    """What OpenAI has no word for."""

    ban: list[Annotated[StrictStr, Field(min_length=1)]] | None = Field(
        default=None, max_length=256
    )
    faithful: Number | None = Field(default=None, ge=0, le=100)
    speculation: Literal["auto", "none"] | None = None
    composition: StrictBool = False
    inspect: StrictBool | StrictInt | None = None
    prefix: list[StrictInt] | None = None


class KnownFields(BaseModel):
    """Fields of a body, and those apart that nobody here knows."""

    model_config = ConfigDict(extra="allow")
    harmless: ClassVar[frozenset[str]] = HARMLESS

    model: StrictStr = Field(default="", max_length=256)

    @field_validator("marith", mode="before", check_fields=False)
    @classmethod
    def _nothing_given(cls, value: Any) -> Any:
        return {} if value is None else value

    def unknown(self) -> list[str]:
        """Fields that nobody here knows. Raises Refusal for one that would change the text."""
        unknown = []
        for name, value in (self.model_extra or {}).items():
            if name in REFUSED and value not in _NEUTRAL_OF.get(name, _NEUTRAL):
                problem = f"{name!r} is not served here; {REFUSED[name]}"
                raise Refusal(problem, code="unsupported_parameter", param=name)
            if name not in self.harmless and name not in REFUSED:
                unknown.append(name)
        return unknown


class SaltedFields(KnownFields):
    """What reads texts, which a client may keep apart by a salt within its key."""

    cache_salt: StrictStr | None = Field(default=None, min_length=1, max_length=256)
    marith: FormulaFields = FormulaFields()

    def salt(self, key: str | None) -> str | None:
        """The salt of a request: each key's texts are kept apart, and each of its salts."""
        return key if self.cache_salt is None else json.dumps([key, self.cache_salt])


class DrawnFields(SaltedFields):
    """How tokens are drawn, where a text ends, and marith's own fields."""

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
            limit = f"at most {_STOPS} texts of {_STOP_LETTERS:,} letters together"
            raise ValueError(f"stop has {limit}, each with at least one letter")
        return value

    def drawn(self) -> dict[str, Any]:
        """How tokens are drawn and where a text ends, as options; without what is not given.

        Other servers mean every token by a `top_k` of 0 or -1, and the likeliest by a `top_p` of 0.
        """
        names = DrawnFields.model_fields.keys() & Options.model_fields.keys()
        names -= SaltedFields.model_fields.keys()
        values = self.model_dump(include=names, exclude_none=True)
        if values.get("top_k") in (0, -1):
            values["top_k"] = None
        if values.get("top_p") == 0:
            values["top_p"] = _LEAST_MASS
        return values


class AskedFields(DrawnFields):
    """What chats and texts have in common."""

    max_tokens: StrictInt | None = Field(default=None, ge=0)
    n: StrictInt | None = Field(default=None, ge=1, le=16)

    @field_validator("max_tokens", "max_completion_tokens", mode="before", check_fields=False)
    @classmethod
    def _no_most(cls, value: Any) -> Any:
        return None if value == -1 else value  # llama.cpp's word for no bound

    @property
    def usage_in_stream(self) -> bool:
        """Whether a stream ends with what the answer took."""
        return bool(self.stream_options and self.stream_options.get("include_usage"))


class ChatFields(AskedFields):
    """A chat: `POST /v1/chat/completions`."""

    messages: Messages = Field(min_length=1)
    max_completion_tokens: StrictInt | None = Field(default=None, ge=1)
    logprobs: StrictBool | None = None
    top_logprobs: StrictInt | None = Field(default=None, ge=0, le=MOST_TOP)
    tools: ToolList | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[StrictStr, Plain] | None = Field(default=None, max_length=16)
    continue_final_message: StrictBool | None = None


class TextFields(AskedFields):
    """A text, as it is or by its tokens: `POST /v1/completions`."""

    prompt: StrictStr | list[StrictInt] | list[StrictStr] | list[list[StrictInt]]
    echo: StrictBool | None = None
    logprobs: StrictInt | None = Field(default=None, ge=0, le=5)

    @field_validator("logprobs", mode="before")
    @classmethod
    def _none_of_chats(cls, value: Any) -> Any:
        return None if value is False else value

    @property
    def prompts(self) -> list[str | list[int]]:
        """Each prompt: a text or tokens."""
        prompt = self.prompt
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
            return [prompt]
        return [*prompt]


class TokenizeFields(KnownFields):
    """A text or messages that become tokens."""

    prompt: StrictStr | None = None
    messages: Messages | None = None
    add_special_tokens: StrictBool = True


class DetokenizeFields(KnownFields):
    """Tokens that become a text."""

    tokens: list[StrictInt]


class ScoreFields(SaltedFields):
    """A continuation, and what it follows: `POST /v1/score`."""

    prompt: StrictStr | list[StrictInt] | None = None
    messages: Messages | None = None
    continuation: StrictStr | list[StrictInt]


def require_one_prompt(prompt: object, messages: object) -> None:
    """Raise Refusal unless a body has either a `prompt` or `messages`."""
    if (prompt is None) == (messages is None):
        found = "neither" if prompt is None else "both"
        sentence = "write either prompt, a text as it stands, or messages, a chat"
        raise Refusal(f"{sentence}; this body has {found}", param="prompt")


class ExplainFields(KnownFields):
    """A formula to be explained, or a model's own: `POST /v1/explain`."""

    formula: StrictStr | None = None
    terms: WireTerms | None = None


class MadeTextFields(DrawnFields):
    """A text that was made, by the fields of the chat or the text that it is the answer to."""

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
        """The chat or the text. Raises Refusal where it is neither, or both."""
        require_one_prompt(self.prompt, self.messages)
        if self.stream:
            raise Refusal("this answer does not stream", param="stream")
        kind = ChatFields if self.messages is not None else TextFields
        names = kind.model_fields.keys() & type(self).model_fields.keys()
        fields = {name: getattr(self, name) for name in names}
        return read_fields(kind, {**fields, "marith": self.marith.model_dump()})


class InspectFields(MadeTextFields):
    """A continuation to be inspected: `POST /v1/inspect`. No token of it is drawn."""

    continuation: StrictStr | list[StrictInt]
    top: StrictInt = Field(default=10, ge=1, le=MOST_TOP)
    leave_one_out: StrictBool = True


class WhatIfFields(MadeTextFields):
    """A number of a formula and other values of it: `POST /v1/what_if`.

    The text's tokens come with all with which they were drawn. `ended` says that an end of the text
    was drawn after its tokens.
    """

    continuation: list[StrictInt]
    ended: StrictBool = False
    number: StrictInt = Field(ge=0)
    values: list[Number] = Field(min_length=1, max_length=21)


Fields = TypeVar("Fields", bound=KnownFields)


async def read_body(request: Request, limit: int) -> bytes:
    """Return a request's body of at most `limit` bytes: what is longer is not waited for.

    Raises Refusal for a body that is too large, comes too slowly, or is no JSON by its headers.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(f"the content-type is application/json, not {kind!r:.80}", 415)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Refusal(f"a body comes without content-encoding, not as {encoding!r:.80}", 415)
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
    """Return the object that some bytes are. Raises Refusal for anything else.

    Refused too are NaN, half a surrogate pair, and more levels than pydantic's reader takes (200).
    """
    try:
        value = from_json(body.removeprefix(_MARK), allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refusal('the body is a JSON object, such as {"model": …}')
    return value


def read_fields(kind: type[Fields], body: Mapping[str, Any]) -> Fields:
    """The fields of a body. Raises Refusal that names the first field that is wrong."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise wrong_value(error) from None
