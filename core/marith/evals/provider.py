"""marith as a model provider of Inspect AI: `--model marith/pocket -M formula="2*formal - M"`."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    Logprob,
    Logprobs,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    TopLogprob,
)
from inspect_ai.tool import ToolCall, ToolChoice, ToolFunction, ToolInfo

from marith import (
    Completion,
    ContextOverflow,
    Engine,
    Options,
    RequestError,
    Sampling,
    Stop,
    Ticket,
)
from marith import TopLogprob as OwnTopLogprob
from marith.errors import shown, valid_options
from marith.evals.system_prompts import paper_terms
from marith.openai_format import (
    composition_costs,
    reasoning_of,
    schema_grammar,
    to_logprobs,
    to_tool_call,
    to_tools,
    total_usage,
)
from marith.request.checks import fields_by_option

# This maps each option of Inspect to the option of marith that it sets.
_OPTIONS = {**{name: name for name in fields_by_option(Sampling, Stop)}, "stop_seqs": "stop"}
# `MarithAPI.generate` reads these options itself.
_READ_BY_GENERATE = {
    "num_choices", "logprobs", "top_logprobs", "response_schema", "parallel_tool_calls",
}  # fmt: skip
# Inspect itself applies these options, for every provider.
_OF_INSPECT = {
    "max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "max_connections",
    "adaptive_connections", "system_message", "max_tool_output", "cache", "fail_on_refusal",
    "reasoning_history",
}  # fmt: skip
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
}


class MarithAPI(ModelAPI):
    """A formula over the model that `--model marith/NAME` names.

    `model_args` are options of `marith.Options`, such as `formula` and `terms`. `terms` may also be
    the name of one of the paper's evaluations (see `paper_terms`). `file` is a persona file, and
    `persona` the name of one of its formulas. All requests of a process share one engine, which
    batches them. Raises FormulaError, ModelError or RequestError before any weights are loaded.

    The seed of a text is a hash of the given seed (0 by default), the messages, and the number of
    earlier requests with the same seed and messages. So the texts of samples and epochs differ, and
    a second run generates the same texts.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 (as Inspect's other providers)
        file: str | None = None,
        persona: str | None = None,
        **model_args: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        if base_url is not None:
            advice = "for a server of `marith serve` write --model openai-api/marith/NAME"
            raise RequestError(f"marith runs in this process, not at {base_url!r}; {advice}")
        # Inspect splits the value of -M at commas, so a formula with commas arrives as a list.
        if isinstance(formula := model_args.get("formula"), list):
            model_args["formula"] = ",".join(map(str, formula))
        if isinstance(terms := model_args.get("terms"), str):
            model_args["terms"] = paper_terms(terms, model_name)
        if persona is not None and file is None:
            raise RequestError(f"persona={persona!r} needs a persona file: write -M file=PATH too")
        with valid_options():
            self.options = (
                Options(model=model_name, **model_args)
                if file is None
                else Options.from_file(file, persona, model=model_name, **model_args)
            )
        self._asked: Counter[bytes] = Counter()

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002 (Inspect's name)
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Return the answer to a conversation. Raises RequestError for an unknown option."""
        messages = plain_messages(input)
        options = self._options(config, messages)
        asked: dict[str, Any] = {
            "tools": to_tools(
                [_definition(tool) for tool in tools],
                list,
                tool_choice.name if isinstance(tool_choice, ToolFunction) else tool_choice,
                config.parallel_tool_calls,
            ),
            "logprobs": to_logprobs(config.logprobs, config.top_logprobs),
        }
        if (schema := config.response_schema) is not None:
            described = schema.json_schema.model_dump(exclude_none=True)
            asked["grammar"] = schema_grammar(described, schema.strict, name=schema.name)
        tickets: list[Ticket] = []
        try:
            for i in range(config.num_choices or 1):
                submit = partial(options.sample(i).submit, messages, **asked)
                tickets.append(await anyio.to_thread.run_sync(submit, abandon_on_cancel=True))
            completions = [await ticket for ticket in tickets]
        except ContextOverflow as error:
            # With this stop reason Inspect goes on; an exception would fail the evaluation.
            return ModelOutput.from_content(self.model_name, str(error), "model_length")
        finally:
            # After an error nobody reads the other texts. Cancelling a finished text does nothing.
            for ticket in tickets:
                ticket.cancel()
        return _output(self.options, completions)

    async def count_text_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len((await self.engine()).encode(text))

    async def engine(self) -> Engine:
        """Return the engine of this process. The first call loads it."""
        return await anyio.to_thread.run_sync(self.options.engine)

    def max_tokens(self) -> int | None:
        """Return None, so that the options of marith set the maximum length."""
        return None

    def max_connections(self) -> int:
        """Return the number of requests that Inspect sends at once."""
        # Inspect's default of 10 would leave most of the engine's batch empty.
        return 256

    def _options(self, config: GenerateConfig, messages: Sequence[Mapping[str, Any]]) -> Options:
        """Return the options of one call. They include the seed of its text."""
        chosen = config.model_dump(exclude_none=True)
        for name, value in chosen.items():
            if name not in {*_OPTIONS, *_READ_BY_GENERATE, *_OF_INSPECT}:
                raise RequestError(f"marith has no {name}={shown(value)}: leave {name} out")
        call = {ours: chosen[name] for name, ours in _OPTIONS.items() if name in chosen}
        if "logit_bias" in call:
            call["logit_bias"] = {int(token): bias for token, bias in call["logit_bias"].items()}
        base = chosen.get("seed", self.options.seed) or 0
        text = json.dumps([base, messages], sort_keys=True)
        key = hashlib.sha256(text.encode()).digest()
        digest = hashlib.sha256(f"{self._asked[key]} {text}".encode()).digest()
        self._asked[key] += 1
        with valid_options():
            return self.options.overridden({**call, "seed": int.from_bytes(digest[:4], "big")})


def plain_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return messages in OpenAI's format. Raises RequestError for an image, audio or a file."""
    return [_message(message) for message in messages]


def _message(message: ChatMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": _text(message.content)}
    if isinstance(message, ChatMessageAssistant) and (reasoning := _reasoning(message.content)):
        written["reasoning_content"] = reasoning
    if isinstance(message, ChatMessageAssistant) and message.tool_calls:
        written["tool_calls"] = [
            to_tool_call(call.id, call.function, json.dumps(call.arguments))
            for call in message.tool_calls
        ]
    if isinstance(message, ChatMessageTool):
        written |= {"tool_call_id": message.tool_call_id, "name": message.function}
        if message.error is not None:
            written["content"] = f"Error: {message.error.message}"
    return written


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    for part in content:
        if not isinstance(part, ContentText | ContentReasoning):
            raise RequestError(f"marith reads only text: remove the {part.type} from the message")
    return "".join(part.text for part in content if isinstance(part, ContentText))


def _reasoning(content: Any) -> str:
    """Return the reasoning of a message, as far as Inspect's `reasoning_history` keeps it."""
    parts = [part for part in content if isinstance(part, ContentReasoning)]
    # The text of redacted reasoning cannot be read, but its summary can.
    readable = [part.summary if part.redacted else part.reasoning for part in parts]
    return reasoning_of([{"type": "reasoning", "reasoning": text} for text in readable])


def _definition(tool: ToolInfo) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters.model_dump(exclude_none=True),
        },
    }


def _output(options: Options, completions: Sequence[Completion]) -> ModelOutput:
    """Return completions as Inspect's output. `metadata` has the tokens and the formula's costs."""
    used = total_usage([completion.usage for completion in completions], len(completions))
    first = completions[0].without_texts(options.names_of_terms)
    return ModelOutput(
        model=options.speaks_as,
        choices=[_choice(options, completion) for completion in completions],
        # Inspect counts cached tokens apart from the other input tokens.
        usage=ModelUsage(
            input_tokens=used.prompt_tokens - used.cached_tokens,
            input_tokens_cache_read=used.cached_tokens,
            output_tokens=used.completion_tokens,
            reasoning_tokens=used.reasoning_tokens,
            total_tokens=used.total_tokens,
        ),
        time=max(completion.stats.seconds for completion in completions),
        metadata={
            "tokens": [list(completion.tokens) for completion in completions],
            "composition": composition_costs(first),
        },
    )


def _choice(options: Options, completion: Completion) -> ChatCompletionChoice:
    reasoning = [ContentReasoning(reasoning=completion.reasoning)] * bool(completion.reasoning)
    text = ContentText(text=completion.text)
    return ChatCompletionChoice(
        message=ChatMessageAssistant(
            content=[*reasoning, text] if reasoning else completion.text,
            tool_calls=[_call(call) for call in completion.calls] or None,
            model=options.speaks_as,
            source="generate",
        ),
        stop_reason=_STOP_REASONS[completion.finish_reason],
        logprobs=_logprobs(completion),
    )


def _call(call: Any) -> ToolCall:
    try:
        return ToolCall(id=call.id, function=call.name, arguments=call.parsed)
    except ValueError as error:
        problem = f"the arguments were cut off: {error}"
        return ToolCall(id=call.id, function=call.name, arguments={}, parse_error=problem)


def _logprobs(completion: Completion) -> Logprobs | None:
    if completion.logprobs is None:
        return None
    return Logprobs(
        content=[
            Logprob(
                **_token_fields(token),
                top_logprobs=[TopLogprob(**_token_fields(one)) for one in token.top],
            )
            for token in completion.logprobs
        ]
    )


def _token_fields(token: OwnTopLogprob) -> dict[str, Any]:
    return {"token": token.text, "logprob": token.logprob, "bytes": list(token.data)}
