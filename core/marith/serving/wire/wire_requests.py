"""Converts bodies to requests of the engine."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from marith import FormulaError, Grammar, Options, Prompted, Request, RequestError, Tools
from marith.openai_format import RENAMED, text_of, to_grammar, to_logprobs, to_tools
from marith.recipes.prompts import guided_away
from marith.serving.served_models import ServedModel
from marith.serving.server_settings import ServerSettings, ServingLimits
from marith.serving.wire.refusals import Refusal, naming
from marith.serving.wire.wire_fields import (
    MOST_LETTERS,
    MOST_TOP,
    AskedFields,
    ChatFields,
    KnownFields,
    TextFields,
)

_FORMATS = ("text", "json_object", "json_schema")
_LARGEST_BIAS = 100
_DIGITS = 10
TOP = 10  # the number of likeliest tokens for `inspect: true`


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The requests of a body, one for each choice, and the warnings for its client."""

    requests: Sequence[Request]
    warnings: Sequence[str]
    fields: AskedFields


def chat_requests(
    fields: ChatFields, model: ServedModel, settings: ServerSettings, key: str | None
) -> WireRequest:
    """Return the requests of a chat. Raises Refusal, RequestError or FormulaError."""
    limits, messages = settings.limits, fields.messages
    require_messages_fit(messages, limits)
    options, warnings = _options(fields, model, settings)
    prefix: str | Sequence[int] = fields.marith.prefix or ""
    if fields.continue_final_message:
        *messages, last = messages
        prefix = _prefix(messages, last, prefix)
    request = options.request(
        messages,
        tools=_tools(fields),
        grammar=_grammar(fields, fields.response_format),
        logprobs=_logprobs(fields),
        template_options=_template_options(fields, options),
        prefix=prefix,
        inspect=inspected_top(fields, model) or False,
        cache_salt=fields.salt(key),
    )
    return _answers(request, fields, options, warnings)


def text_requests(
    fields: TextFields,
    model: ServedModel,
    settings: ServerSettings,
    key: str | None,
    prompt: str | Sequence[int],
) -> WireRequest:
    """Return the requests of one prompt, which is continued without a chat template."""
    if fields.marith.prefix:
        raise Refusal(
            "marith.prefix is for chats only; append its tokens to the prompt", param="marith"
        )
    options, warnings = _options(fields, model, settings)
    model.require_text_fits(prompt, "prompt", settings.limits)
    tokens = model.engine.encode(prompt, start=True) if isinstance(prompt, str) else [*prompt]
    if isinstance(prompt, str):
        warnings += model.warnings_of_text(prompt)
    if not tokens:
        raise Refusal("a prompt must have at least one token", param="prompt")
    grammar = _grammar(fields, None)
    request = options.request(
        tokens,
        grammar=grammar,
        logprobs=fields.logprobs,
        inspect=inspected_top(fields, model) or False,
        cache_salt=fields.salt(key),
    )
    if guidance := _guidance(fields, model, settings):
        warnings += model.warnings_of_text(guidance[0], "negative_prompt")
        request = _guided(request, *guidance)
    return _answers(request, fields, options, warnings)


def inspected_top(fields: AskedFields, model: ServedModel) -> int:
    """Return the number of likeliest tokens to inspect at each position; 0 for no inspection.

    Raises Refusal for more than MOST_TOP.
    """
    asked = fields.marith.inspect
    value = model.options.inspect if asked is None else asked
    top = TOP if value is True else int(value)
    if not 0 <= top <= MOST_TOP:
        problem = (
            f"marith.inspect must be a number of likeliest tokens, at most {MOST_TOP}, not {top}"
        )
        raise Refusal(problem, param="marith")
    return top


def most_inspected(fields: AskedFields, model: ServedModel, limits: ServingLimits) -> int | None:
    """Return the maximum number of tokens of each answer, or None without an inspection."""
    top = inspected_top(fields, model)
    answers = (fields.n or 1) * (len(fields.prompts) if isinstance(fields, TextFields) else 1)
    return max(1, limits.inspected // (top * answers)) if top else None


def options_of(fields: Any, model: ServedModel, settings: ServerSettings) -> Options:
    """Return the model's options, with the formula and terms of the body if it has any."""
    sent = fields.marith.model_dump(include={"formula", "terms"}, exclude_none=True)
    return with_formula(sent, model, settings, "marith")


def with_formula(
    sent: Mapping[str, Any], model: ServedModel, settings: ServerSettings, holder: str = ""
) -> Options:
    """Return the model's options, with the formula and terms of `sent`.

    If the server does not allow formulas, `sent` must be empty. A term that equals the model's
    own term counts as not sent. `holder` is the field of the body that holds the formula and the
    terms; "" means the body itself. Raises Refusal or FormulaError.
    """
    if sent:
        name = min(sent)
        shown = f"{holder}.{name}" if holder else name
        _require_formulas_allowed(settings, holder or name, shown)
    known, terms = model.options.terms, sent.get("terms", {})
    new = {name: text for name, text in terms.items() if known.get(name) != text}
    return model.options.overridden({**sent, "terms": new} if "terms" in sent else sent)


def _require_formulas_allowed(settings: ServerSettings, param: str, shown: str) -> None:
    """Raise Refusal unless the server allows formulas.

    `param` is the field of the body that holds a formula, and `shown` names it in the message.
    """
    if not settings.allow_formulas:
        raise Refusal(
            f"this server does not allow formulas, but the body has {shown}; ask for one of its "
            "models, or start the server with --allow-formulas",
            code="formulas_not_allowed",
            param=param,
        )


def _options(
    fields: AskedFields, model: ServedModel, settings: ServerSettings
) -> tuple[Options, list[str]]:
    """Return the model's options, overridden by the body, and warnings about the body."""
    limits, warnings = settings.limits, warnings_of(fields)
    call = fields.drawn()
    if "logit_bias" in call:
        call["logit_bias"] = _biases(call["logit_bias"])
    own = fields.marith
    for name, tokens in (
        ("logit_bias", [*call.get("logit_bias", ())]),
        ("stop_token_ids", fields.stop_token_ids),
        ("marith.prefix", own.prefix),
    ):
        model.require_known_tokens(tokens or (), name)
    taken = {"faithful", "steer_reasoning", "steer_tools"}
    call |= own.model_dump(include=taken, exclude_none=True)
    effort, ignored = _effort(fields, model)
    call |= effort
    warnings += ignored
    if own.ban:
        call["ban"] = [*model.options.ban, *own.ban]
    asked = fields.most_tokens
    if asked == 0 and not getattr(fields, "echo", False):
        raise Refusal(
            "max_tokens must be a whole number from 1, or 0 with echo", param="max_tokens"
        )
    limit = min(filter(None, (limits.tokens, most_inspected(fields, model, limits))), default=None)
    call["max_tokens"] = _most_tokens(asked, limit, model.own_tokens)
    if call["max_tokens"] is not None and (fields.min_tokens or 0) > call["max_tokens"]:
        problem = f"min_tokens must be at most max_tokens, which is {call['max_tokens']}"
        raise Refusal(f"{problem}, not {fields.min_tokens}", param="min_tokens")
    call["timeout"] = min(filter(None, (limits.seconds, model.options.timeout)), default=None)
    options = options_of(fields, model, settings).overridden(call)
    if own.faithful and options.faithful_to is None:
        problem = "marith.faithful needs the option faithful_to, a regular expression that finds"
        advice = "only the server's persona file can set it, in its table [model]"
        raise Refusal(f"{problem} retrieved text; {advice}", param="marith")
    if own.speculation is not None:
        drafts = None if own.speculation == "none" else own.speculation
        options = options.model_copy(update={"speculation": drafts})
    return options, warnings


def _most_tokens(asked: int | None, limit: int | None, default: int | None) -> int | None:
    """Return the maximum number of tokens: `asked` or else the `default`, at most `limit`."""
    wanted = default if asked is None else max(asked, 1)
    return min(filter(None, (limit, wanted)), default=None)


def warnings_of(fields: KnownFields) -> list[str]:
    """Return a warning for each unknown field, with the name that the field has here.

    Raises Refusal for a field that would change the text.
    """
    warnings = []
    for name in fields.unknown():
        known = RENAMED.get(name)
        hint = f"; write {known}" if known in type(fields).model_fields else ""
        warnings.append(f"the field {name!r} is unknown, and was ignored{hint}")
    return warnings


def require_messages_fit(messages: Sequence[Mapping[str, Any]], limits: ServingLimits) -> None:
    """Raise Refusal for messages that are too long, or whose content is not text."""
    letters = 0
    for i, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, list):
            try:
                text_of(content)
            except RequestError as error:
                problem = f"messages.{i}: {error}"
                raise Refusal(problem, code="unsupported_content", param="messages") from None
        letters += len(content) if isinstance(content, str) else len(str(content or ""))
    if letters > limits.letters:
        problem = f"all messages together must have at most {limits.letters:,} characters"
        raise Refusal(problem, 413, "messages_too_long", "messages")


def _template_options(fields: ChatFields, options: Options) -> dict[str, Any]:
    """Return the options of the chat template. An effort is one, except "none"."""
    effort = fields.reasoning_effort
    own = {} if effort in (None, "none") else {"reasoning_effort": effort}
    return {**options.chat_template_kwargs, **own, **(fields.chat_template_kwargs or {})}


def _effort(fields: AskedFields, model: ServedModel) -> tuple[dict[str, Any], list[str]]:
    """Return what an effort of reasoning sets: no reasoning for "none"; and a warning, if any."""
    effort: str | None = getattr(fields, "reasoning_effort", None)
    if effort == "none":
        return {} if fields.max_reasoning_tokens is not None else {"max_reasoning_tokens": 0}, []
    if effort is None or model.engine.answers.vocabulary.reads_option("reasoning_effort"):
        return {}, []
    problem = f"reasoning_effort={effort!r} has no effect, because the model's chat template does"
    return {}, [f"{problem} not read it; write max_reasoning_tokens, a number of tokens"]


def _prefix(messages: Sequence[Any], last: Mapping[str, Any], tokens: object) -> str:
    content = last.get("content")
    if tokens:
        problem = "write either marith.prefix or continue_final_message, not both"
        raise Refusal(problem, param="marith")
    if last.get("role") != "assistant" or not isinstance(content, str) or not messages:
        raise Refusal(
            "continue_final_message needs a last message with the role assistant and a text as "
            "its content, after another message",
            param="continue_final_message",
        )
    return content


def _tools(fields: ChatFields) -> Tools | None:
    if fields.tools and len(json.dumps(fields.tools)) > MOST_LETTERS:
        raise Refusal(
            f"all tools together must have at most {MOST_LETTERS:,} characters", param="tools"
        )
    parallel = fields.parallel_tool_calls
    with naming("tools"):
        to_tools(fields.tools, list, "auto", parallel)
    with naming("tool_choice"):
        return to_tools(fields.tools, list, fields.tool_choice, parallel)


def _guidance(
    fields: TextFields, model: ServedModel, settings: ServerSettings
) -> tuple[str, float] | None:
    """Return a negative prompt and its guidance scale, or None if they do not change the text.

    Raises Refusal if one of the two is missing, or if this request may not have them.
    """
    scale, negative = fields.guidance_scale, fields.negative_prompt
    if scale == 1 or (scale is None and not negative):
        return None
    if scale is None:
        problem = "negative_prompt needs guidance_scale, such as 1.5; 1 has no effect"
        raise Refusal(problem, param="guidance_scale")
    if not negative:
        problem = f"guidance_scale {scale} needs negative_prompt, a text in place of the prompt"
        raise Refusal(problem, param="negative_prompt")
    _require_formulas_allowed(settings, "negative_prompt", "negative_prompt")
    if fields.echo and fields.logprobs is not None:
        problem = "echo with logprobs scores the prompt under the model alone"
        advice = "leave echo, logprobs or negative_prompt out"
        raise Refusal(f"{problem}; {advice}", param="negative_prompt")
    model.require_text_fits(negative, "negative_prompt", settings.limits)
    return negative, scale


def _guided(request: Request, negative: str, scale: float) -> Request:
    """Return the request with classifier-free guidance away from a text in place of the prompt."""
    away = Prompted(negative, mode="whole")
    with naming("guidance_scale", FormulaError):
        guided = guided_away(away, request.formulas[0], scale, request.meanings)
    return replace(request, formula=guided)


def _grammar(fields: AskedFields, response_format: Mapping[str, Any] | None) -> Grammar | None:
    text = fields.grammar
    kind = (response_format or {}).get("type", "text")
    if kind not in _FORMATS:
        problem = (
            f"the type of response_format must be one of {', '.join(_FORMATS)}, not {kind!r:.80}"
        )
        raise Refusal(problem, param="response_format")
    with naming("grammar"):
        grammar = None if text is None else Grammar.lark(text)
    with naming("response_format"):
        return to_grammar(grammar, response_format or None)


def _logprobs(fields: ChatFields) -> int | None:
    if fields.top_logprobs and not fields.logprobs:
        raise Refusal("top_logprobs needs logprobs: true", param="top_logprobs")
    return to_logprobs(bool(fields.logprobs), fields.top_logprobs)


def _biases(biases: Mapping[str, float]) -> dict[int, float]:
    for token, bias in biases.items():
        is_token = token.isascii() and token.isdigit() and len(token) < _DIGITS
        if not is_token or abs(bias) > _LARGEST_BIAS:
            problem = "logit_bias must map token ids to numbers from -100 to 100"
            raise Refusal(f"{problem}, not {token!r:.40}: {bias!r:.40}", param="logit_bias")
    return {int(token): bias for token, bias in biases.items()}


def _answers(
    request: Request,
    fields: AskedFields,
    options: Options,
    warnings: Sequence[str],
) -> WireRequest:
    """Return a request for each of `n` choices, with the seeds seed, seed + 1, … in 64 bits."""
    count = fields.n or 1
    first = options
    if count > 1 and options.seed is None:
        first = options.model_copy(update={"seed": secrets.randbits(62)})
    seeds = [first.sample(i).seed for i in range(count)]
    requests = [replace(request, sampling=replace(request.sampling, seed=one)) for one in seeds]
    return WireRequest(requests, warnings, fields)
