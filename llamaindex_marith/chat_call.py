"""One call of a model: the options of the model and of the call, and the fields of the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.tools.function_tool import sync_to_async

import marith
from llamaindex_marith.retrieved_text import or_retrieved
from llamaindex_marith.tool_selection import to_tools

_TOOL_OPTIONS = ("tools", "tool_choice", "tool_required", "allow_parallel_tool_calls", "strict")
_ANSWER_OPTIONS = ("grammar", "logprobs")
# The log gives this advice if `faithful` is set and no pattern finds retrieved text.
_TEMPLATE = "for a template of your own write faithful_to=context_of(template)"


@dataclass(frozen=True, slots=True)
class ChatCall:
    """The options of one call, and the other fields of its request."""

    options: marith.Options
    request_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: marith.Options,
        answers: marith.Grammar | None,
        options: Mapping[str, Any],
        in_chat: bool,
    ) -> ChatCall:
        """Return a call, whose answers follow the grammar `answers` if it is given.

        The call has the options of the model, overridden by `options`. Raises RequestError for an
        unknown option, before anything is loaded.
        """
        names = (*_ANSWER_OPTIONS, *(_TOOL_OPTIONS if in_chat else ()))
        request_fields = {name: options[name] for name in names if name in options}
        for name in () if in_chat else options.keys() & {*_TOOL_OPTIONS}:
            problem = f"{type(model).__name__} takes no option {name!r} for a completion"
            raise marith.RequestError(f"{problem}; tools are for a chat")
        model.check_call(options, names)
        with marith.errors.valid_options():
            chosen = model.overridden(
                {name: options[name] for name in options if name not in request_fields}
            )
        # A query engine of LlamaIndex may use both the application's templates and LlamaIndex's, so
        # the pattern matches both.
        if chosen.faithful:
            pattern = or_retrieved(chosen.faithful_to)
            chosen = chosen.model_copy(update={"faithful_to": pattern})
        tool_options = {
            n: request_fields[n] for n in _TOOL_OPTIONS if request_fields.get(n) is not None
        }
        tools = to_tools(tool_options.pop("tools", None), **tool_options)
        answer = {"grammar": answers} | {
            n: request_fields[n] for n in _ANSWER_OPTIONS if n in request_fields
        }
        return cls(chosen, {"tools": tools, **answer})

    def for_prompt(self, prompt: Sequence[dict[str, Any]]) -> ChatCall:
        """Return the call for one prompt. If the prompt has no retrieved text, `faithful` is 0."""
        if self.options.retrieves(prompt, _TEMPLATE):
            return self
        return replace(self, options=self.options.model_copy(update={"faithful": 0.0}))

    def submit(self, prompt: Sequence[dict[str, Any]], started: float) -> marith.Ticket:
        """Start a request. Blocks while weights are loaded, or while the engine is busy.

        The timeout counts from `started`.
        """
        return self.options.submit(prompt, started=started, **self.request_options)

    async def asubmit(self, prompt: Sequence[dict[str, Any]], started: float) -> marith.Ticket:
        """Start a request in a thread. Waits at most until the deadline."""
        submitted = sync_to_async(self.submit)(prompt, started)
        return await self.options.deadline(started).wait_for(submitted)
